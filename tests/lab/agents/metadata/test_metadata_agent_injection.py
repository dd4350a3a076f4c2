"""The metadata agent, with guests that want to hurt it or each other."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from netfw.testing.lab.wait import wait_until
from tests.lab.agents.metadata.environment import FIRST, NETWORK, Agent, address, instance
from tests.lab.agents.metadata.recording_service import RecordingService, Response, Seen

Make = Callable[..., Agent]

ASK = (
    f"GET /mine HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {address(FIRST)}\r\n"
    f"X-Neutron-Network-ID: {NETWORK}\r\n"
).encode()
VICTIM = (
    f"GET /victims HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {address(FIRST + 1)}\r\n"
    f"X-Neutron-Network-ID: {NETWORK}\r\n\r\n"
).encode()


def rest(client: socket.socket) -> bytes:
    data = b""
    with suppress(OSError):
        while more := client.recv(65_536):
            data += more
    return data


def say(agent: Agent, data: bytes) -> bytes:
    with agent.dial() as client:
        with suppress(OSError):
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
        return rest(client)


@pytest.mark.spec("MD-10")
@pytest.mark.parametrize(
    "more",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + VICTIM,
        b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(VICTIM) + VICTIM,
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + VICTIM,
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + VICTIM,
        b"Content-Length: +5\r\n\r\n" + VICTIM,
        b"X: y\n" + VICTIM,
        b"X: y\r\n Z: folded\r\n\r\n",
        b"X-Forwarded-For: 10.0.0.11\r\n\r\n",
        b"X-Neutron-Network-ID: %s\r\n\r\n" % str(NETWORK).encode(),
        b"X-Tenant-Id: a\r\nX-Tenant-ID: b\r\n\r\n",
        b"X: \x00\r\n\r\n",
        b"X: y\rX-Instance-ID: z\r\n\r\n",
    ],
    ids=lambda value: repr(value[:40]),
)
def test_what_could_be_read_in_two_ways_is_not_read_at_all(
    lasting_agent: Agent, known: RecordingService, more: bytes
) -> None:
    answer = say(lasting_agent, ASK + more)
    assert answer.split(b" ", 2)[1] in (b"400", b"501"), answer[:200]
    assert answer.count(b"HTTP/1.1 ") == 1
    assert known.seen == []
    assert "Traceback" not in lasting_agent.log.read_text()


def test_a_body_is_no_second_request(lasting_agent: Agent, known: RecordingService) -> None:
    ask = ASK.replace(b"GET", b"POST")
    say(lasting_agent, ask + b"Content-Length: %d\r\n\r\n" % len(VICTIM) + VICTIM)
    say(lasting_agent, ask + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (
        len(VICTIM), VICTIM,
    ))  # fmt: skip
    assert [(seen.target, seen.body) for seen in known.seen] == [("/mine", VICTIM)] * 2
    assert {seen.values("X-Instance-ID")[0] for seen in known.seen} == {instance(FIRST)}
    assert all(len(seen.values("Content-Length")) == 1 for seen in known.seen)
    assert not [seen for seen in known.seen if seen.values("Transfer-Encoding")]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (ASK + b"X-Large: " + b"x" * 100_000 + b"\r\n\r\n", b"413"),
        (ASK + b"X-More: y\r\n" * 10_000 + b"\r\n", b"413"),
        (b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (ASK.replace(b"/mine", b"http://127.0.0.1:1/x") + b"\r\n", b"400"),
        (ASK.replace(b"/mine", b"/a b") + b"\r\n", b"400"),
        (ASK.replace(b"/mine", b"/a\xff") + b"\r\n", b"400"),
        (ASK.replace(b"HTTP/1.1", b"HTTP/2.0") + b"\r\n", b"505"),
        (ASK.replace(b"GET", b"CONNECT") + b"\r\n", b"405"),
        (ASK.replace(b"GET", b"TRACE") + b"\r\n", b"405"),
        (b"\x16\x03\x01\x02\x00", b"400"),
        (ASK.replace(b"GET", b"POST") + b"Content-Length: 99999999999\r\n\r\n", b"413"),
        (ASK + b"Expect: tea\r\n\r\n", b"417"),
    ],
    ids=lambda value: repr(value[:30]) + str(len(value)),
)
def test_what_is_too_large_or_no_request_is_refused(
    lasting_agent: Agent, known: RecordingService, data: bytes, status: bytes
) -> None:
    answer = say(lasting_agent, data)
    assert answer.split(b" ", 2)[1] == status, answer[:300]
    assert known.seen == []
    assert b"text/plain" in answer
    assert lasting_agent.ask().status == 200
    assert "Traceback" not in lasting_agent.log.read_text()


@pytest.fixture
def many_files() -> Iterator[int]:
    """Raise the limit of open files, and yield the number of clients that it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield min(1500, hard - 200)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.spec("MD-04")
def test_slow_senders_do_not_block_other_guests(
    make_agent: Make, service: RecordingService, many_files: int
) -> None:
    agent = make_agent(service.port, metadata={"metadata_workers": 2})
    agent.start()
    slow = [agent.dial() for _ in range(many_files)]
    assert len(slow) > 1100, "the agent has files that select() does not know"
    for number, client in enumerate(slow):
        client.sendall((b"GET", ASK[:60], ASK)[number % 3])
    began = time.monotonic()
    for _ in range(10):
        assert agent.ask().status == 200
    assert time.monotonic() - began < 10
    slow[2].sendall(b"\r\n")
    assert slow[2].recv(100).startswith(b"HTTP/1.1 200")
    for client in slow:
        client.close()


def test_guest_that_does_not_read_blocks_no_other(
    make_agent: Make, service: RecordingService
) -> None:
    agent = make_agent(service.port, metadata={"metadata_workers": 4})
    agent.start()
    service.behave = lambda seen: Response(
        body=b"x" * (8_000_000 if seen.target == "/mine" else 10)
    )
    deaf = [agent.dial() for _ in range(2)]
    for client in deaf:
        client.sendall(ASK + b"\r\n")
    other = address(FIRST + 1)
    for _ in range(5):
        assert agent.ask("/small", of=other).body == b"x" * 10
    assert len(agent.ask("/mine", of=other).body) == 8_000_000
    for client in deaf:
        client.close()


@pytest.mark.spec("MD-04")
def test_one_guest_cannot_keep_all_others_waiting(
    make_agent: Make, service: RecordingService
) -> None:
    agent = make_agent(service.port, metadata={"metadata_workers": 4})
    agent.start()
    release = threading.Event()
    mine = address(FIRST)

    def behave(seen: Seen) -> Response:
        return Response(body=b"%d" % (seen.values("X-Forwarded-For") != [mine] or release.wait(30)))

    service.behave = behave
    with ThreadPoolExecutor(20) as pool:
        greedy = [pool.submit(agent.ask, of=mine) for _ in range(20)]
        wait_until(lambda: sum(each.done() for each in greedy) == 18)
        assert agent.ask(of=address(FIRST + 1)).status == 200
        release.set()
        assert sorted(each.result().status for each in greedy) == [200] * 2 + [503] * 18


def test_guests_that_hang_up_leave_nothing_behind(
    lasting_agent: Agent, known: RecordingService
) -> None:
    known.behave = lambda _: Response(after=0.05)
    for _ in range(50):
        with lasting_agent.dial() as client:
            client.sendall(ASK + b"\r\n")
    for _ in range(50):
        lasting_agent.dial().close()
    assert lasting_agent.ask(of=address(FIRST + 1)).status == 200
    assert "Traceback" not in lasting_agent.log.read_text()


def test_abandoned_request_is_not_forwarded(make_agent: Make, service: RecordingService) -> None:
    agent = make_agent(service.port, metadata={"metadata_workers": 1})
    agent.start()
    release = threading.Event()
    service.behave = lambda _: Response(body=b"%d" % release.wait(30))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(agent.ask)
        wait_until(lambda: service.seen)
        for number in range(50):
            with agent.dial() as client:
                client.sendall(ASK.replace(b"/mine", b"/%d" % number) + b"\r\n")
        release.set()
        assert first.result().status == 200
    half = say(agent, ASK.replace(b"/mine", b"/half") + b"\r\n")
    assert half.startswith(b"HTTP/1.1 200")
    assert [seen.target for seen in service.seen] == ["/latest/meta-data/", "/half"]
