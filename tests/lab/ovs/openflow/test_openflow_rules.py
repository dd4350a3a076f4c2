"""What the client owes its peer, seen from the other end of the wire."""

import socket
import threading
import time
from contextlib import suppress
from struct import pack

import pytest

from netfw import flows as of
from netfw.errors import BackendUnavailable, OperationRefused
from netfw.ovs.openflow import (
    FlowChanges,
    FlowMirror,
    OpenFlow,
    encode_flows,
    socket_connection,
)
from netfw.ovs.openflow.messages import (
    CLOSE,
    COMMIT,
    DISCARD,
    FLOW_MONITOR,
    METER_CONFIG,
    OPEN,
    Type,
)
from netfw.ovs.openflow.socket_connection import SocketConnection
from netfw.testing.lab.wait import wait_until
from tests.lab.ovs.openflow.openflow_peer import HELLO, received, until_hung_up

REFUSAL = pack("!HH", 1, 1)
MONITOR, END_MONITOR = 0, 2


def changes(*numbers: int) -> FlowChanges:
    flows = (of.Flow(table=5, priority=9, match=of.register(0, number)) for number in numbers)
    return FlowChanges(tuple(encode_flows(flows).values()))


def send(sock: socket.socket, kind: int, xid: int, body: bytes = b"") -> None:
    sock.sendall(pack("!BBHI", 5, kind, 8 + len(body), xid) + body)


class Switch:
    """Answers bundles and barriers, and remembers the steps of every bundle.

    It refuses what is in *refused*: a step of a bundle, or ``Type.BUNDLE_ADD``.
    """

    def __init__(self, *refused: int) -> None:
        self.refused = refused
        self.steps: list[tuple[int, int]] = []

    def __call__(self, sock: socket.socket) -> None:
        sock.sendall(HELLO)
        while True:
            kind, xid, body = received(sock)
            if kind == Type.BARRIER_REQUEST:
                send(sock, Type.BARRIER_REPLY, xid)
            elif kind == Type.BUNDLE_ADD and kind in self.refused:
                send(sock, Type.ERROR, xid, REFUSAL)
            elif kind == Type.BUNDLE_CONTROL:
                bundle, step = int.from_bytes(body[:4], "big"), int.from_bytes(body[4:6], "big")
                self.steps.append((bundle, step))
                self.answer(sock, xid, bundle, step)

    def answer(self, sock: socket.socket, xid: int, bundle: int, step: int) -> None:
        if step in self.refused:
            send(sock, Type.ERROR, xid, REFUSAL)
        else:
            send(sock, Type.BUNDLE_CONTROL, xid, pack("!IHH", bundle, step + 1, 3))


def test_a_bundle_of_which_something_was_refused_is_thrown_away(connected_to) -> None:
    switch = Switch(Type.BUNDLE_ADD)
    _, client = connected_to(switch)
    client.wait_connected()
    with pytest.raises(OperationRefused, match=r"reg0=0x7.*bad type"):
        client.commit(changes(7))
    assert [step for _, step in switch.steps] == [OPEN, CLOSE, DISCARD]


@pytest.mark.parametrize(
    ("refused", "steps"),
    [
        ((OPEN, Type.BUNDLE_ADD, CLOSE), [OPEN, CLOSE]),
        ((CLOSE,), [OPEN, CLOSE, DISCARD]),
        ((CLOSE, DISCARD), [OPEN, CLOSE, DISCARD]),
        ((COMMIT,), [OPEN, CLOSE, COMMIT]),
    ],
)
def test_a_refusal_of_any_step_is_a_refused_operation(connected_to, refused, steps) -> None:
    switch = Switch(*refused)
    peer, client = connected_to(switch)
    client.wait_connected()
    with pytest.raises(OperationRefused, match="bad type") as caught:
        client.commit(changes(7))
    assert set(caught.value.reasons) == {peer.target}
    assert [step for _, step in switch.steps] == steps


class Slow(Switch):
    """Answers no CLOSE before it has listened for anything that comes behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.closing = threading.Event()
        self.intruders = 0

    def answer(self, sock: socket.socket, xid: int, bundle: int, step: int) -> None:
        if step == CLOSE:
            self.closing.set()
            sock.settimeout(0.3)
            with suppress(TimeoutError):
                self.intruders += len(sock.recv(1, socket.MSG_PEEK))
            sock.settimeout(None)
        super().answer(sock, xid, bundle, step)


def test_bundles_do_not_mix_however_many_threads_commit(connected_to) -> None:
    switch = Slow()
    _, client = connected_to(switch)
    client.wait_connected()
    first = threading.Thread(target=client.commit, args=[changes(1)])
    first.start()
    switch.closing.wait(60)
    client.commit(changes(2))
    first.join(60)
    assert switch.intruders == 0
    assert switch.steps == [(bundle, step) for bundle in (1, 2) for step in (OPEN, CLOSE, COMMIT)]


def test_a_probe_of_the_peer_is_answered_with_its_own_words(connected_to) -> None:
    answers: list[tuple[int, int, bytes]] = []

    def probes(sock: socket.socket) -> None:
        sock.sendall(HELLO)
        send(sock, Type.ECHO_REQUEST, 77, b"are you there?")
        while True:
            answers.append(received(sock))

    connected_to(probes)
    wait_until(lambda: (Type.ECHO_REPLY, 77, b"are you there?") in answers)


def test_what_was_followed_is_over_when_the_connection_is_lost(connected_to) -> None:
    def tells(sock: socket.socket) -> None:
        sock.sendall(HELLO)
        while True:
            kind, xid, _ = received(sock)
            if kind == Type.BARRIER_REQUEST:
                send(sock, Type.MULTIPART_REPLY, 77, bytes(8))
                send(sock, Type.BARRIER_REPLY, xid)

    peer, client = connected_to(tells)
    client.wait_connected()
    heard: list[object] = []
    client.connection.follow(77, heard.append)
    client.barrier()
    assert len(heard) == 1
    client.connection._hang_up()
    wait_until(lambda: peer.accepted == 2 and client.connected)
    client.barrier()
    assert len(heard) == 1


def greets_and_hangs_up(sock: socket.socket) -> None:
    sock.sendall(HELLO)
    received(sock)


def hangs_up(sock: socket.socket) -> None:
    received(sock)


@pytest.mark.parametrize("behaviour", [greets_and_hangs_up, hangs_up])
def test_a_peer_that_hangs_up_at_once_is_left_alone_for_longer_and_longer(
    connected_to, behaviour
) -> None:
    start = time.monotonic()
    peer, _ = connected_to(behaviour)
    wait_until(lambda: peer.accepted >= 6)
    assert time.monotonic() - start > 0.04 + 0.08 + 0.16 + 0.32 + 0.64


def test_unreachable_switch_is_retried_with_back_off() -> None:
    tried: list[float] = []

    class Counting(SocketConnection):
        def _connect(self) -> socket.socket:
            tried.append(time.monotonic())
            return super()._connect()

    lonely = Counting("tcp:127.0.0.1:1")
    try:
        wait_until(lambda: len(tried) >= 6)
    finally:
        lonely.close()
    assert tried[5] - tried[0] > 0.04 + 0.08 + 0.16 + 0.32 + 0.64


def test_after_a_good_connection_the_next_one_is_tried_at_once(connected_to, monkeypatch) -> None:
    monkeypatch.setattr(socket_connection, "_STEADY", 0.1)
    monkeypatch.setattr(socket_connection, "_LONGEST_PAUSE", 60.0)
    calls: list[float] = []
    ends: list[float] = []
    clients: list[OpenFlow] = []

    def moody(sock: socket.socket) -> None:
        calls.append(time.monotonic())
        sock.sendall(HELLO)
        if len(calls) > 9:
            until_hung_up(sock)
        elif len(calls) > 6:
            wait_until(lambda: clients and clients[0].connected)
            time.sleep(0.3)
            ends.append(time.monotonic())

    clients.append(connected_to(moody)[1])
    wait_until(lambda: len(calls) == 10)
    pauses = [after - before for before, after in zip(ends, calls[7:], strict=True)]
    assert min(pauses) < 2.5, "the pause before them was 1.28 s, and was doubled each time"


def test_numbers_of_messages_start_again_before_they_run_out() -> None:
    nobody = SocketConnection("unix:/nobody")
    try:
        nobody._last_xid = 0xFFFF_FFF0
        assert nobody.reserve_xids(100) == 1
        assert nobody.next_xid() == 101
        nobody._last_xid = 0xFFFF_FFFD
        assert nobody.next_xid() == 0xFFFF_FFFE
        assert nobody.next_xid() == 1
    finally:
        nobody.close()


def test_a_peer_that_does_not_read_is_hung_up_on(connected_to) -> None:
    done = threading.Event()

    def reads_nothing(sock: socket.socket) -> None:
        sock.sendall(HELLO)
        done.wait(60)

    _, client = connected_to(reads_nothing, timeout=0.3, probe=30)
    states: list[bool] = []
    client.on_state(states.append)
    client.wait_connected(10)
    with pytest.raises(BackendUnavailable):
        client.connection.send(bytes(1 << 24))
    wait_until(lambda: states[:2] == [True, False])
    done.set()


class Monitored:
    """Reports an empty switch to each monitor, but not before it is told to."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, int, int]] = []
        """Number, command and xid."""
        self.report: list[int] = []
        """Numbers of monitors to answer at the next barrier."""

    def __call__(self, sock: socket.socket) -> None:
        sock.sendall(HELLO)
        while True:
            kind, xid, body = received(sock)
            if kind == Type.MULTIPART_REQUEST and body[:2] == pack("!H", METER_CONFIG):
                send(sock, Type.MULTIPART_REPLY, xid, pack("!HHxxxx", METER_CONFIG, 0))
            elif kind == Type.MULTIPART_REQUEST:
                number, command = int.from_bytes(body[8:12], "big"), body[23]
                self.requests.append((number, command, xid))
            elif kind == Type.BARRIER_REQUEST:
                for number, command, asked in self.requests:
                    if command == MONITOR and number in self.report:
                        send(sock, Type.MULTIPART_REPLY, asked, pack("!HHxxxx", FLOW_MONITOR, 0))
                send(sock, Type.BARRIER_REPLY, xid)


def test_an_audit_ends_the_monitor_before_it(connected_to) -> None:
    switch = Monitored()
    _, client = connected_to(switch)
    client.wait_connected()
    mirror = FlowMirror(client)
    mirror.audit()
    client.barrier()
    assert [request[:2] for request in switch.requests] == [
        (1, MONITOR), (1, END_MONITOR), (2, MONITOR)
    ]  # fmt: skip


def test_what_an_old_monitor_still_says_makes_nothing_current(connected_to) -> None:
    switch = Monitored()
    _, client = connected_to(switch)
    client.wait_connected()
    mirror = FlowMirror(client)
    mirror.audit()
    switch.report = [1]
    client.barrier()
    with pytest.raises(BackendUnavailable, match="not all flows were read"):
        mirror.wait_current(0)
    switch.report = [2]
    client.barrier()
    mirror.wait_current(0)
    assert client.connection._followed == {}, "nothing more is to come"


def test_an_audit_without_a_connection_leaves_nothing_behind(connected_to) -> None:
    peer, client = connected_to(hangs_up)
    mirror = FlowMirror(client)
    wait_until(lambda: peer.accepted)
    with pytest.raises(BackendUnavailable):
        mirror.audit()
    assert client.connection._followed == {}
