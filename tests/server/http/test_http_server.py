"""The HTTP server, on unix sockets, with clients of every temper."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import select
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest

from netfw.errors import ConfigError
from netfw.http.listen_sockets import listen_unix
from netfw.http.server import HttpServer, HttpSettings
from netfw.server.api.error_responses import render_json_error
from netfw.testing.lab.wait import wait_until

Handler = Callable[[dict[str, Any]], bytes]


class Unix(http.client.HTTPConnection):
    opened: ClassVar[list[Unix]] = []

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=10)
        self.path = path
        self.opened.append(self)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(10)
        self.sock.connect(str(self.path))


def app(handler: Handler) -> Any:
    def wsgi(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        data = handler(environ)
        start("200 OK", [("Content-Length", str(len(data)))])
        return [data]

    return wsgi


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., tuple[HttpServer, Path]]]:
    started: list[HttpServer] = []

    def start_server(handler: Handler, **settings: Any) -> tuple[HttpServer, Path]:
        path = tmp_path / f"api{len(started)}.sock"
        server = HttpServer(
            app(handler),
            listen_unix(path),
            HttpSettings(**settings),
            render_error=render_json_error,
        )
        server.start()
        started.append(server)
        return server, path

    yield start_server
    while Unix.opened:
        Unix.opened.pop().close()
    for server in started:
        server.stop(0.1)


def ask(path: Path, method: str = "GET", body: bytes = b"") -> tuple[int, bytes]:
    connection = Unix(path)
    connection.request(method, "/", body or None)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, data


def test_a_server_at_rest_does_not_wake_the_thread_for_slow_clients(serve: Any) -> None:
    _, path = serve(lambda environ: b"")
    (writer,) = (each for each in threading.enumerate() if each.name == "netfw-http-write")
    status = Path(f"/proc/self/task/{writer.native_id}/status")

    def wakeups() -> str:
        return status.read_text().partition("voluntary_ctxt_switches:")[2]

    ask(path)
    before, end = wakeups(), time.monotonic() + 1.0
    wait_until(lambda: time.monotonic() > end)
    assert wakeups() == before


def test_a_server_whose_loop_does_not_turn_is_stalled(serve: Any) -> None:
    server, path = serve(lambda environ: b"")
    ask(path)
    end = time.monotonic() + 1.0
    wait_until(lambda: server.stalled_for() and time.monotonic() > end)
    stopped = time.monotonic()
    server.stop(0.1)
    wait_until(lambda: server.stalled_for() > 1.0)
    assert server.stalled_for() - 1.0 < time.monotonic() - stopped


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
        return b"late" if release.wait(10) else b""

    _, path = serve(busy, threads=2, queue=1)
    asking = [Unix(path) for _ in range(4)]
    for count, connection in enumerate(asking, 1):
        connection.request("GET", "/")
        if count <= 2:
            assert begun.acquire(timeout=5)
    readable, _, _ = select.select([each.sock for each in asking], [], [], 5)
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


def test_a_stop_lets_running_requests_finish_and_takes_no_more(serve: Any) -> None:
    begun, release = threading.Event(), threading.Event()

    def slowly(environ: dict[str, Any]) -> bytes:
        begun.set()
        release.wait(10)
        return b"finished"

    server, path = serve(slowly)
    replies: list[Any] = []
    running = threading.Thread(target=lambda: replies.append(ask(path)))
    running.start()
    assert begun.wait(5)
    stopping = threading.Thread(target=lambda: replies.append(server.stop(5)))
    stopping.start()
    release.set()
    running.join(10)
    stopping.join(10)
    assert sorted(map(str, replies)) == sorted(map(str, [(200, b"finished"), True]))
    with pytest.raises(OSError):
        ask(path)


def test_a_stop_does_not_wait_for_ever(serve: Any) -> None:
    begun, release = threading.Event(), threading.Event()

    def stuck(environ: dict[str, Any]) -> bytes:
        begun.set()
        release.wait(20)
        return b""

    server, path = serve(stuck)
    client = Unix(path)
    client.request("GET", "/")
    assert begun.wait(5)
    began = time.monotonic()
    assert server.stop(0.2) is False
    assert time.monotonic() - began < 3
    release.set()


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


LARGE = b"x" * 3_000_000


def begin(path: Path, target: str = "/") -> Unix:
    """Return a client that has sent a request, and does not read the response, which has begun."""
    client = Unix(path)
    client.request("GET", target)
    poller = select.poll()
    poller.register(client.sock, select.POLLIN)
    assert poller.poll(60_000)
    return client


def size_read(client: Unix) -> int:
    """Read the response of *client*; return how many bytes of its body arrive."""
    try:
        return len(client.getresponse().read())
    except http.client.IncompleteRead as exc:
        return len(exc.partial)


@pytest.mark.spec("API-13")
def test_clients_that_do_not_read_hold_no_thread(serve: Any) -> None:
    _, path = serve(lambda environ: LARGE if environ["PATH_INFO"] == "/large" else b"ok", threads=2)
    clients = [begin(path, "/large") for _ in range(8)]
    assert ask(path) == (200, b"ok")
    for client in clients:
        assert size_read(client) == len(LARGE)
        client.request("GET", "/")
        assert client.getresponse().read() == b"ok", "the connection serves further requests"


@pytest.mark.spec("API-13")
def test_responses_that_are_not_read_take_bounded_memory(serve: Any) -> None:
    _, path = serve(lambda _: LARGE, threads=1, unsent=4 * len(LARGE))
    clients = [begin(path) for _ in range(12)]
    wait_until(lambda: is_lost(clients[7]), "the first eight connections are closed")
    complete = [size_read(client) == len(LARGE) for client in clients]
    assert complete == [False] * 8 + [True] * 4


def is_lost(client: Unix) -> bool:
    """Return whether the server has closed the connection of *client*."""
    poller = select.poll()
    poller.register(client.sock, 0)
    return bool(poller.poll(0))


def test_a_client_that_does_not_read_is_given_up_in_time(serve: Any) -> None:
    _, path = serve(lambda _: LARGE, threads=1, writing=0.3)
    client = begin(path)
    wait_until(lambda: is_lost(client), "the server hangs up")


def test_an_idle_connection_holds_no_body(serve: Any) -> None:
    _, path = serve(lambda environ: str(len(environ["wsgi.input"].read())).encode())
    clients = [Unix(path) for _ in range(4)]
    tracemalloc.start()
    try:
        for client in clients:
            client.request("POST", "/", b"b" * 2_000_000)
            assert client.getresponse().read() == b"2000000"
        wait_until(lambda: tracemalloc.get_traced_memory()[0] < 2_000_000, "the bodies are freed")
    finally:
        tracemalloc.stop()


def test_a_client_that_reads_no_responses_without_body_is_given_up_in_time(serve: Any) -> None:
    _, path = serve(lambda _: b"", threads=1, writing=0.3)
    client = Unix(path)
    client.connect()
    client.sock.setblocking(False)
    asked = b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n" * 1000

    def is_given_up() -> bool:
        with suppress(BlockingIOError, BrokenPipeError):
            client.sock.send(asked)
        return is_lost(client)

    wait_until(is_given_up, "the server hangs up")


def test_a_client_that_was_slow_to_read_may_stay(serve: Any) -> None:
    _, path = serve(lambda environ: LARGE, threads=1, writing=0.5)
    client = begin(path)
    assert size_read(client) == len(LARGE)
    time.sleep(2.5)
    assert not is_lost(client)


def test_a_stop_sends_what_clients_still_take(serve: Any) -> None:
    server, path = serve(lambda _: LARGE, threads=1)
    client = begin(path)
    stopping = threading.Thread(target=server.stop, args=(60,))
    stopping.start()
    assert size_read(client) == len(LARGE)
    stopping.join(60)
    assert not stopping.is_alive()
