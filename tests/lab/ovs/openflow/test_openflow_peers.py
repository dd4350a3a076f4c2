"""Peers that misbehave: silence, garbage, pieces, and errors.  The peer is a plain socket."""

import re
import socket
import time
from struct import pack

import pytest

from netfw.errors import BackendError, BackendUnavailable
from netfw.ovs.openflow import FlowMirror, OpenFlow, OpenFlowError
from netfw.testing.lab.wait import wait_until
from tests.lab.ovs.openflow.openflow_peer import HELLO, error_of, received, until_hung_up


def silent(sock: socket.socket) -> None:
    until_hung_up(sock)


def greets_and_falls_silent(sock: socket.socket) -> None:
    sock.sendall(HELLO)
    until_hung_up(sock)


def by_bytes(sock: socket.socket) -> None:
    """Answer barriers, one byte at a time."""
    for byte in HELLO:
        sock.sendall(bytes([byte]))
    while True:
        kind, xid, _ = received(sock)
        if kind == 20:
            for byte in pack("!BBHI", 5, 21, 8, xid):
                sock.sendall(bytes([byte]))
                time.sleep(0.001)


def garbage(sock: socket.socket) -> None:
    sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    until_hung_up(sock)


def no_greeting(sock: socket.socket) -> None:
    sock.sendall(pack("!BBHI", 5, 21, 8, 1))
    until_hung_up(sock)


def nonsense_in_answers(sock: socket.socket) -> None:
    """Answer each multipart request with an entry of no length."""
    sock.sendall(HELLO)
    while True:
        kind, xid, body = received(sock)
        if kind == 18:
            sock.sendall(pack("!BBHI", 5, 19, 16 + 60, xid) + body[:2] + bytes(6) + bytes(60))


def refuses_everything(sock: socket.socket) -> None:
    sock.sendall(HELLO)
    while True:
        kind, xid, _ = received(sock)
        if kind:
            sock.sendall(pack("!BBHIHH", 5, 1, 12, xid, 1, 1))


def hangs_up_on_requests(sock: socket.socket) -> None:
    sock.sendall(HELLO)
    while received(sock)[0] == 0:
        pass


def test_a_peer_that_never_greets_is_given_up_and_tried_again(connected_to) -> None:
    peer, client = connected_to(silent, probe=0.05)
    wait_until(lambda: "nothing received" in error_of(client))
    wait_until(lambda: peer.accepted >= 3)


def test_a_peer_that_falls_silent_is_noticed_by_probing(connected_to) -> None:
    _, client = connected_to(greets_and_falls_silent, probe=0.05)
    states: list[bool] = []
    client.on_state(states.append)
    wait_until(lambda: False in states)
    assert states[:2] == [True, False]


def test_a_request_without_an_answer_ends_in_time(connected_to) -> None:
    _, client = connected_to(greets_and_falls_silent, timeout=0.2, probe=60)
    client.wait_connected(30)
    start = time.monotonic()
    for call in (client.barrier, client.flows):
        with pytest.raises(BackendUnavailable, match=r"did not answer within 0\.2 s"):
            call()
    assert time.monotonic() - start < 30, "it waited for the probe"
    with pytest.raises(BackendUnavailable, match="not all flows were read"):
        FlowMirror(client).wait_current()


def test_a_connection_lost_while_waiting_fails_the_waiting_at_once(connected_to) -> None:
    _, client = connected_to(hangs_up_on_requests, timeout=60)
    for call in (client.barrier, client.flows):
        client.wait_connected()
        start = time.monotonic()
        with pytest.raises(BackendUnavailable, match="hung up"):
            call()
        assert time.monotonic() - start < 30, "it waited for the time-out"


def test_messages_in_pieces_are_put_together(connected_to) -> None:
    _, client = connected_to(by_bytes)
    client.wait_connected()
    for _ in range(5):
        client.barrier()


@pytest.mark.parametrize("behaviour", [garbage, no_greeting])
def test_what_is_not_openflow_is_refused_with_a_reason(connected_to, behaviour) -> None:
    _, client = connected_to(behaviour)
    wait_until(lambda: re.search(r"a message of (version|type)", error_of(client)))


def test_nonsense_inside_of_an_answer_is_an_error_and_not_a_hang(connected_to) -> None:
    _, client = connected_to(nonsense_in_answers)
    client.wait_connected()
    with pytest.raises(BackendError, match="not OpenFlow"):
        client.flows()
    assert client.connected


def test_errors_are_described_in_words(connected_to) -> None:
    _, client = connected_to(refuses_everything)
    client.wait_connected()
    with pytest.raises(OpenFlowError, match=r"bad request: bad type \(OFPBRC_BAD_TYPE\)"):
        client.barrier()
    mirror = FlowMirror(client)

    def reason() -> str:
        with pytest.raises(BackendUnavailable) as unavailable:
            mirror.wait_current(0)
        return str(unavailable.value)

    wait_until(lambda: "does not report its flows: bad request" in reason(), reason)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("br-int", "neither unix:PATH nor tcp:HOST:PORT"),
        ("tcp:127.0.0.1:openflow", "invalid literal"),
        ("tcp:127.0.0.1:1", "refused"),
    ],
)
def test_a_target_that_makes_no_sense_says_so(target: str, why: str) -> None:
    client = OpenFlow(target)
    try:
        wait_until(lambda: why in error_of(client))
    finally:
        client.close()


def test_closing_takes_no_time_in_any_state(connected_to) -> None:
    for behaviour in (silent, greets_and_falls_silent, garbage):
        _, client = connected_to(behaviour, timeout=60, probe=60)
        time.sleep(0.05)
        start = time.monotonic()
        client.close()
        assert time.monotonic() - start < 30, "it waited for an answer"
