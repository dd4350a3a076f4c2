"""What one client can do to a server without a broker, and to the others: little."""

from __future__ import annotations

import os
import random
import threading
import time
from concurrent.futures import Future
from contextlib import suppress

import pytest

from netfw.drivers.transport import Message
from netfw.errors import BackendUnavailable, InvalidInput
from netfw.testing.lab.services.fault_proxy import FaultProxy
from netfw_drivers.transports.sockets.client import PendingRequest
from netfw_drivers.transports.sockets.framing import FrameReader, encode, encode_message
from tests.lab.backends.transports.raw_client import (
    LONG,
    Callers,
    RawClient,
    call_error,
    eventually,
    length,
    request,
    token_file,
)

pytestmark = pytest.mark.spec("RPC-06")


@pytest.fixture
def server(here, transport):
    """Return a server with tight bounds."""
    made = transport(
        listen=f"unix:{here}/s",
        max_message_size=100_000,
        transfer_timeout=0.5,
        max_connections=8,
    )
    made.serve("server", Callers())
    return made


@pytest.fixture
def friend(here, transport, server):
    """Return a client of that server that keeps to its limits."""
    made = transport(connect=f"unix:{here}/s")
    made.call(request(), LONG)
    return made


def joined(raw, here) -> RawClient:
    """Return a raw client that the server has admitted."""
    client = raw(f"{here}/s")
    assert client.receive().kind == "welcome"
    return client


def resident() -> int:
    """Return the bytes of memory that this process uses."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_message_over_the_limit_is_refused_before_it_is_stored(here, raw, friend, caplog):
    client = joined(raw, here)
    before = resident()
    client.socket.sendall(length(1 << 30))
    assert client.is_dropped(LONG)
    assert resident() - before < 10_000_000
    assert "a message of 1073741824 bytes is larger than the limit of 100000" in caplog.text
    friend.call(request(), LONG)


def test_what_is_no_message_ends_the_connection_and_nothing_else(here, raw, friend, caplog):
    chance = random.Random(7)
    bad = [
        length(3) + b"\0\5a",
        encode({"kind": "call"}),
        encode({"kind": "welcome"}),
        encode({"kind": "subscribe", "topics": "all"}),
        encode({"kind": "subscribe", "topics": [str(n) for n in range(1001)]}),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        *(length(20) + chance.randbytes(20) for _ in range(10)),
    ]
    for number, data in enumerate(bad, 1):
        client = joined(raw, here)
        client.socket.sendall(data)
        assert client.is_dropped(LONG), data
        assert eventually(lambda n=number: caplog.text.count("refused process") == n), data
    friend.call(request(), LONG)


def test_a_message_that_never_ends_is_given_up(here, raw, friend, caplog):
    client = joined(raw, here)
    client.socket.sendall(length(1000) + b"x")
    began = time.monotonic()
    for _ in range(600):  # slowly, but something all the time
        if client.is_dropped(0.05):
            break
        with suppress(ConnectionError):  # it is dropped just now
            client.socket.send(b"x")
    assert time.monotonic() - began > 0.3
    assert "a message did not end within 0.5 s" in caplog.text
    friend.call(request(), LONG)


def test_idle_client_stays_connected(here, raw, friend):
    client = joined(raw, here)
    assert not client.is_dropped(1.0)
    client.socket.settimeout(LONG)
    client.socket.sendall(encode_message("call", request("later"), number=3))
    assert client.receive().number == 3


def test_silent_client_is_dropped_before_its_handshake(here, transport, raw, caplog):
    tokens = token_file(here / "t", "0123456789abcdef\n")
    server = transport(listen="tcp:127.0.0.1:24200", token_file=tokens, handshake_timeout=0.3)
    server.serve("server", Callers())
    for begin in (b"", b"\0", length(100) + b"x"):
        client = raw(("127.0.0.1", 24200))
        client.socket.sendall(begin)
        assert client.is_dropped(LONG)
    assert caplog.text.count("no handshake in 0.3 s") == 3


def test_there_is_a_limit_to_connections_and_it_is_said(here, raw, friend, transport, caplog):
    many = [joined(raw, here) for _ in range(7)]
    late = transport(connect=f"unix:{here}/s")
    with pytest.raises(BackendUnavailable, match="8 clients are connected already"):
        late.call(request(), LONG)
    assert "8 clients are connected already" in caplog.text
    many[0].close()
    assert eventually(lambda: not call_error(late, LONG)), "the server notices that one is gone"
    friend.call(request(), LONG)


def test_client_that_does_not_read_answers_is_dropped(here, raw, friend, caplog):
    client = joined(raw, here)
    before = resident()
    big = encode_message("call", request("echo", b"x" * 90_000), number=1)
    peaks = [before]

    def send() -> None:
        for _ in range(200):
            client.socket.sendall(big)
            peaks.append(resident())

    with pytest.raises(ConnectionError):
        send()
    assert max(peaks) - before < 30_000_000
    friend.call(request(), LONG)
    reasons = ("the peer read nothing for 0.5 s", "it does not read its answers")
    assert eventually(lambda: any(each in caplog.text for each in reasons))


def test_client_that_does_not_read_hints_has_one_per_topic(here, raw, transport):
    server = transport(listen=f"unix:{here}/s", transfer_timeout=60.0)
    server.serve("server", Callers())
    client = joined(raw, here)
    client.send(kind="subscribe", topics=["a", "b"])
    assert client.receive().kind == "subscribed"
    for n in range(2000):
        for topic in ("a", "b"):
            server.publish(Message(topic=topic, method=f"m{n}", body=b"x" * 1000))
        time.sleep(0.0005)  # or they would become one before they are sent
    last: dict[str, str] = {}
    received = 0
    while set(last.values()) != {"m1999"}:
        frame = client.receive()
        last[frame.text("topic")] = frame.text("method")
        received += 1
    assert received < 1000, "more than the kernel's buffers hold"


def test_one_client_cannot_take_all_the_room(here, raw, transport):
    # Requests of one client beyond sixteen wait in its own socket.
    gate, begun = threading.Event(), []

    def slow(message, caller):
        begun.append(message.method)
        if message.method == "wait":
            gate.wait(30)
        return message

    server = transport(listen=f"unix:{here}/s", threads=2, max_queued_requests=50)
    server.serve("server", slow)
    greedy = joined(raw, here)
    calls = [encode_message("call", request("wait"), number=n) for n in range(150)]
    greedy.socket.sendall(b"".join(calls))
    assert eventually(lambda: len(begun) == 2)
    other = joined(raw, here)
    other.socket.sendall(encode_message("call", request("quick"), number=1))
    other.send(kind="subscribe", topics=["news"])
    assert other.receive().kind == "subscribed"  # so its request is in the queue
    assert len(begun) == 2
    gate.set()
    assert other.receive().number == 1
    assert begun.index("quick") <= 20
    assert sorted(greedy.receive().number for _ in range(150)) == list(range(150))


def frames_of(data: bytes, reader: FrameReader):
    """Yield whole frames, and their bytes."""
    reader.add(data)
    while (frame := reader.next()) is not None:
        yield frame, encode(frame.header, frame.body)


def test_a_request_that_is_too_large_is_refused_once(here, transport, server):
    # Its caller may wake only after the connection was lost, and made again.
    relay = FaultProxy(f"{here}/relay", f"{here}/s")
    try:
        client = transport(connect=f"unix:{here}/relay")
        client.call(request(), LONG)
        large = PendingRequest(
            encode_message("call", request("echo", b"x" * 200_000), number=0), Future()
        )
        client._loop.call_soon(client._client._enqueue, 0, large)
        assert eventually(large.answer.done)
        relay.sever()
        assert eventually(lambda: not call_error(client, LONG)), "it connects again"
        with pytest.raises(InvalidInput, match="200"):
            large.answer.result()
    finally:
        relay.close()


def test_doubled_answers_and_hints_do_no_harm(here, transport, friend, server):
    relay = FaultProxy(f"{here}/relay", f"{here}/s")
    reader = FrameReader(1 << 20)
    heard: list[str] = []
    try:
        relay.tamper_back = lambda data: b"".join(
            raw * (1 if frame.kind == "welcome" else 2) for frame, raw in frames_of(data, reader)
        )
        client = transport(connect=f"unix:{here}/relay")
        client.subscribe("news", lambda message: heard.append(message.method))
        for n in range(50):
            body = f"{n}".encode()
            assert client.call(request("echo", body), LONG).body == body
        server.publish(Message(topic="news", method="notification"))
        assert eventually(lambda: "notification" in heard)
        assert relay.accepted == 1
    finally:
        relay.close()


def test_lost_and_late_messages_are_time_outs(here, transport, friend, server):
    relay = FaultProxy(f"{here}/relay", f"{here}/s")
    reader = FrameReader(1 << 20)
    lose = {b"lost"}
    try:
        relay.tamper_forth = lambda data: b"".join(
            raw for frame, raw in frames_of(data, reader) if frame.body not in lose
        )
        client = transport(connect=f"unix:{here}/relay")
        client.call(request(), LONG)
        with pytest.raises(BackendUnavailable, match=r"no answer on server .* within 5 s"):
            client.call(request("echo", b"lost"), 5)
        with relay.stalled(), pytest.raises(BackendUnavailable):
            client.call(request("echo", b"late"), 0.3)
        for n in range(5):
            assert client.call(request("echo", f"{n}".encode()), LONG).body == f"{n}".encode()
        assert relay.accepted == 1
    finally:
        relay.close()
