"""The HTTP server, on unix sockets, with clients of every temper."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import select
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netfw.errors import ConfigError
from netfw.http.listen_sockets import listen_unix
from netfw.http.server import HttpServer
from netfw.testing.lab.wait import wait_until
from tests.server.http.http_environment import Unix, app, ask
from tests.thread_limit import no_threads


def test_a_server_at_rest_does_not_wake_the_thread_for_slow_clients(serve: Any) -> None:
    former = set(threading.enumerate())  # servers of other tests may have some left
    _, path = serve(lambda environ: b"")
    started = set(threading.enumerate()) - former
    (writer,) = (each for each in started if each.name == "netfw-http-write")
    status = Path(f"/proc/self/task/{writer.native_id}/status")

    def wakeups() -> str:
        return status.read_text().partition("voluntary_ctxt_switches:")[2]

    def rests() -> bool:
        before = wakeups()
        time.sleep(1.0)
        return wakeups() == before

    ask(path)
    wait_until(rests, "a second without a wake-up, once the thread has begun to wait")


def test_a_server_whose_loop_does_not_turn_is_stalled(serve: Any) -> None:
    server, path = serve(lambda environ: b"")
    ask(path)
    end = time.monotonic() + 1.0
    wait_until(lambda: time.monotonic() - server.stalled_for() > end, "a turn a second later")
    server.stop(0.1)
    wait_until(lambda: server.stalled_for() > 1.0)


def test_a_client_is_known_by_the_credentials_of_its_process(serve: Any) -> None:
    _, path = serve(lambda environ: repr(environ["netfw.peer_credentials"]).encode())
    assert ask(path) == (200, repr((os.getpid(), os.getuid(), os.getgid())).encode())


def test_a_connection_serves_several_requests_with_and_without_bodies(serve: Any) -> None:
    _, path = serve(lambda environ: environ["wsgi.input"].read() or b"nothing")
    connection = Unix(path)
    for sent, got in ((b"a" * 100_000, b"a" * 100_000), (None, b"nothing"), (b"b", b"b")):
        connection.request("POST", "/", sent)
        assert connection.getresponse().read() == got
    connection.request("POST", "/", iter([b"chunk", b"ed"]), encode_chunked=True)
    assert connection.getresponse().read() == b"chunked"
    connection.close()


@pytest.mark.spec("API-13")
def test_overload_is_answered_with_503_and_when_to_come_again(serve: Any) -> None:
    begun, release = threading.Semaphore(0), threading.Event()

    def busy(environ: dict[str, Any]) -> bytes:
        begun.release()
        return b"late" if release.wait(60) else b""

    _, path = serve(busy, threads=2, queue=1)
    asking = [Unix(path) for _ in range(4)]
    for count, connection in enumerate(asking, 1):
        connection.request("GET", "/")
        if count <= 2:
            assert begun.acquire(timeout=60)
    readable, _, _ = select.select([each.sock for each in asking], [], [], 60)
    (turned_away,) = [each for each in asking if each.sock in readable]
    answer = turned_away.getresponse()
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert json.loads(answer.read())["NeutronError"]["type"] == "ServiceUnavailable"
    release.set()
    for connection in asking:
        if connection is not turned_away:
            assert connection.getresponse().read() == b"late"
    assert ask(path) == (200, b"late")


@pytest.mark.spec("API-13")
def test_unfinished_requests_time_out_and_delay_no_other(serve: Any) -> None:
    _, path = serve(lambda environ: b"here", threads=1, reading=0.3)
    silent = [Unix(path) for _ in range(5)]
    for connection in silent:
        connection.connect()
    assert ask(path) == (200, b"here")
    slow = Unix(path)
    slow.connect()
    slow.sock.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc")
    assert ask(path) == (200, b"here")
    assert slow.sock.recv(1000)[:12] in (b"", b"HTTP/1.1 408")


@pytest.mark.spec("API-13")
def test_connections_that_were_shut_down_take_no_place_in_the_queue(serve: Any) -> None:
    begun, release = threading.Event(), threading.Event()

    def busy(environ: dict[str, Any]) -> bytes:
        begun.set()
        return b"late" if release.wait(60) else b""

    server, path = serve(busy, threads=1, queue=1, reading=5.0)
    slow = [Unix(path) for _ in range(8)]
    for number, connection in enumerate(slow, 1):
        connection.connect()
        connection.sock.sendall(b"GET / HTTP/1.1\r\n")
        wait_until(lambda number=number: len(server._server.watch._since) == number)
    running, waiting = Unix(path), Unix(path)
    running.request("GET", "/")
    assert begun.wait(60)
    assert [connection.sock.recv(1000) for connection in slow] == [b""] * 8
    waiting.request("GET", "/")
    readable, _, _ = select.select([waiting.sock], [], [], 1.0)
    assert not readable, "it was turned away"
    release.set()
    assert [each.getresponse().read() for each in (running, waiting)] == [b"late", b"late"]


def test_a_stop_lets_running_requests_finish_and_takes_no_more(serve: Any) -> None:
    begun, release = threading.Event(), threading.Event()

    def slowly(environ: dict[str, Any]) -> bytes:
        begun.set()
        release.wait(60)
        return b"finished"

    server, path = serve(slowly)
    replies: list[Any] = []
    running = threading.Thread(target=lambda: replies.append(ask(path)))
    running.start()
    assert begun.wait(60)
    stopping = threading.Thread(target=lambda: replies.append(server.stop(60)))
    stopping.start()
    release.set()
    running.join(60)
    stopping.join(60)
    assert sorted(map(str, replies)) == sorted(map(str, [(200, b"finished"), True]))
    with pytest.raises(OSError):
        ask(path)


@pytest.fixture
def hanging(serve: Any) -> Iterator[tuple[HttpServer, threading.Event]]:
    """Yield a server whose handler has a request, and an event that lets it finish."""
    begun, release = threading.Event(), threading.Event()

    def hang(environ: dict[str, Any]) -> bytes:
        begun.set()
        release.wait(60)
        return b""

    server, path = serve(hang)
    client = Unix(path)
    client.request("GET", "/")
    assert begun.wait(60)
    yield server, release
    release.set()


def test_a_stop_does_not_wait_for_ever(hanging: tuple[HttpServer, threading.Event]) -> None:
    server, _ = hanging
    began = time.monotonic()
    assert server.stop(0.2) is False
    assert time.monotonic() - began < 30


def test_stop_without_a_thread_does_not_wait_for_a_handler_that_hangs(
    hanging: tuple[HttpServer, threading.Event],
) -> None:
    server, release = hanging
    with no_threads():
        assert server.stop(0.2) is False
    release.set()
    assert server.stop(60) is True


def test_several_servers_share_one_socket(tmp_path: Path) -> None:
    listening = listen_unix(tmp_path / "shared.sock")
    servers = [HttpServer(app(lambda environ: b"one of us"), listening.dup()) for _ in range(2)]
    for server in servers:
        server.start()
    assert ask(tmp_path / "shared.sock") == (200, b"one of us")
    servers[0].stop(1)
    for _ in range(3):
        assert ask(tmp_path / "shared.sock") == (200, b"one of us")
    servers[1].stop(1)
    listening.close()


def test_a_socket_that_is_served_or_is_no_socket_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    first = listen_unix(path, 0o600)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigError, match="another server serves"):
        listen_unix(path)
    first.close()
    listen_unix(path).close()
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is no socket"):
        listen_unix(tmp_path / "file")


@pytest.mark.spec("API-13")
@pytest.mark.parametrize(
    ("headers", "status", "message"),
    [
        (b"X-Project-Id: a\r\n", 200, b"a"),
        (b"X_Project_Id: a\r\n", 200, b"nobody"),
        (b"X-Project-Id: a\r\nX_Project-Id: b\r\n", 200, b"a"),
        (b"X-Project-Id: a\r\nx-project-id: b\r\n", 400, b"is given twice"),
        (b"Accept: a\r\nAccept: b\r\n", 200, b"nobody"),
        (b"X-Project-Id : a\r\n", 400, b"that HTTP does not allow"),
        (b"X-Other: x\r\n X-Project-Id: a\r\n", 400, b"that HTTP does not allow"),
        (b"X-Project-Id: a\x00b\r\n", 400, b"control characters"),
        (b"X-Project-Id: a\n", 400, b"does not end"),
        (b"Content-Length: 1\r\nContent-Length: 2\r\n", 400, b"is given twice"),
        (b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", 400, b"contradict each other"),
        (b"Content-Length: -1\r\n", 400, b"not a number of bytes"),
        (b"Content-Length: +1\r\n", 400, b"not a number of bytes"),
        (b"Content-Length: 1_0\r\n", 400, b"not a number of bytes"),
        (b"Content-Length: " + b"9" * 19 + b"\r\n", 400, b"not a number of bytes"),
        (b"Content-Length: \r\n", 400, b"not a number of bytes"),
        (b"X-Large: " + b"x" * 40_000 + b"\r\n", 413, b""),
    ],
)
def test_headers_that_could_be_read_in_two_ways_are_not_read_at_all(
    serve: Any, headers: bytes, status: int, message: bytes
) -> None:
    _, path = serve(lambda environ: environ.get("HTTP_X_PROJECT_ID", "nobody").encode())
    connection = Unix(path)
    connection.connect()
    connection.sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n" + headers + b"\r\n")
    answer = http.client.HTTPResponse(connection.sock)
    answer.begin()
    data = answer.read()
    answer.close()
    assert (answer.status, message in data) == (status, True), data


CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.spec("API-13")
@pytest.mark.parametrize(
    ("head", "message"),
    [
        (CHUNKED + b"3\r\nabc\r\n0\r\n\r\n", b"200 OK 3"),
        (CHUNKED + b"3 ;more=1\r\nabc\r\n00\r\n\r\n", b"200 OK 3"),
        (CHUNKED + b"40000000\r\n", b"200 OK 101"),
        (CHUNKED + b"FFFFFFFFFFFFFFFF\r\n", b"200 OK 101"),
        (CHUNKED + b"1\r\nx\r\n40000000\r\n", b"200 OK 101"),
        (CHUNKED + b"1;", b"400 Bad Request"),
        (CHUNKED + b"-1\r\n", b"400 Bad Request"),
        (CHUNKED + b"1\r\nxy\r\n0\r\n\r\n", b"400 Bad Request"),
        (b"Content-Length: 1000000000\r\n\r\n", b"200 OK unread"),
    ],
)
def test_no_client_makes_the_server_hold_more_than_a_body_may_have(
    serve: Any, head: bytes, message: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    def count(environ: dict[str, Any]) -> bytes:
        given = environ["wsgi.input"]
        return b"%d" % len(given.read()) if isinstance(given, io.BytesIO) else b"unread"

    _, path = serve(count, body=100)
    connection = Unix(path)
    connection.connect()
    connection.sock.sendall(b"POST / HTTP/1.1\r\nHost: a\r\n" + head)
    sent, answer = 0, b""
    whole = head.endswith(b"\r\n\r\n") and CHUNKED in head
    while not answer and sent < 50_000_000:  # until it answers, whatever is still to come
        if select.select([connection.sock], [], [], 0.01)[0]:
            with contextlib.suppress(ConnectionResetError):
                while some := connection.sock.recv(4096):
                    answer += some
        elif not whole:
            with contextlib.suppress(BrokenPipeError):
                sent += connection.sock.send(b"x" * 65_536)
    lines = answer.split(b"\r\n")
    assert message in lines[0] + b" " + lines[-1]
    assert sent < 1_000_000
    assert not caplog.records
