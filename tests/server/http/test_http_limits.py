"""The HTTP server, with clients that want to hurt it, or that speak something else than HTTP."""

from __future__ import annotations

import json
import logging
import os
import resource
import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from netfw.http.http_error import HttpError
from netfw.http.listen_sockets import listen_unix
from netfw.http.server import HttpServer, HttpSettings
from netfw.server.api.error_responses import render_json_error
from netfw.testing.lab.wait import wait_until

BODY = 64 * 1024
MUCH = 32 * 1024 * 1024
POST = b"POST / HTTP/1.1\r\nHost: a\r\n"
GET = b"GET / HTTP/1.1\r\nHost: a\r\n"
DELETE = b"DELETE / HTTP/1.1\r\nHost: a\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
AGAIN = b"GET /again HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


def echo(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
    body = environ["wsgi.input"].read(2 * BODY)
    data = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']} {len(body)};".encode()
    start("200 OK", [("Content-Length", str(len(data))), ("Content-Type", "text/plain")])
    return [data]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    started: list[HttpServer] = []

    def start_server(**settings: Any) -> Path:
        path = tmp_path / f"api{len(started)}.sock"
        server = HttpServer(
            echo,
            listen_unix(path),
            HttpSettings(**{"threads": 2, "body": BODY, **settings}),
            render_error=render_json_error,
        )
        server.start()
        started.append(server)
        return path

    yield start_server
    for server in started:
        server.stop(0.1)


@pytest.fixture(scope="module")
def socket_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("socket_path") / "api.sock"
    server = HttpServer(
        echo, listen_unix(path), HttpSettings(threads=2, body=BODY), render_error=render_json_error
    )
    server.start()
    yield path
    server.stop(0.1)


@pytest.fixture
def no_faults(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


def dial(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(60)
    client.connect(str(path))
    return client


def rest(client: socket.socket) -> bytes:
    """Return all data that comes until the server closes the connection."""
    data = b""
    try:
        while more := client.recv(65_536):
            data += more
    except ConnectionResetError:
        pass
    return data


def say(path: Path, data: bytes) -> bytes:
    with dial(path) as client:
        with suppress(OSError):
            client.sendall(data)
        return rest(client)


def lost(clients: Iterable[socket.socket]) -> list[socket.socket]:
    """Return those of *clients* whose connection the server has closed."""
    poller = select.poll()
    by_number = {client.fileno(): client for client in clients}
    for number in by_number:
        poller.register(number, 0)
    return [by_number[number] for number, _ in poller.poll(0)]


def refused(answer: bytes) -> tuple[int, dict[str, str]]:
    """Return the status and the error of an answer that must have the form of the API's errors."""
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert "Content-Type: application/json" in lines, answer[:500]
    assert "Connection: close" in lines
    assert f"Content-Length: {len(body)}" in lines
    error = json.loads(body)["NeutronError"]
    assert set(error) == {"type", "message", "detail"}
    assert all((error["type"], error["message"]))
    return int(lines[0].split()[1]), error


@pytest.mark.spec("API-13")
@pytest.mark.parametrize(
    ("start", "more", "status"),
    [
        (POST + b"Content-Length: -1\r\n\r\n", b"x" * 65_536, 400),
        (CHUNKED + b"40000000\r\n", b"x" * 65_536, 200),
        (CHUNKED + b"1;", b"x" * 65_536, 400),
        (CHUNKED + b"1;x=y\r\n", b"x\r\n1;x=y\r\n" * 6000, 400),
        (CHUNKED + b"0\r\n", b"X-Trailer: x\r\n" * 4000, 200),
        (CHUNKED + b"0\r\nX: ", b"x" * 65_536, 200),
        (GET, b"X-More: x\r\n" * 5000, 413),
        (GET + b"X: ", b"x" * 65_536, 413),
        (b"GET /", b"x" * 65_536, 414),
        (POST + b"Content-Length: 99999999999\r\n\r\n", b"x" * 65_536, 200),
    ],
    ids=lambda value: repr(value[-30:]) if isinstance(value, bytes) else None,
)
def test_no_client_makes_the_server_take_more_than_its_bounds(
    socket_path: Path, start: bytes, more: bytes, status: int, no_faults: None
) -> None:
    with dial(socket_path) as client:
        sent = 0
        try:
            client.sendall(start)
            while sent < MUCH:
                client.sendall(more)
                sent += len(more)
        except OSError:
            pass
        answer = rest(client)
    assert sent < 8 * BODY + 1024 * 1024
    assert answer.startswith(b"HTTP/1.1 %d " % status), (sent, answer[:200])
    if status != 200:
        assert refused(answer)[0] == status


@pytest.mark.spec("API-04")
@pytest.mark.parametrize(
    ("data", "status", "message"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400, "Host"),
        (b'GET / HTTP/1.1\r\nHost: a"><b>\r\n\r\n', 400, "Host"),
        (b"GET /\r\n\r\n", 400, "request line"),
        (b"GET /\r\n", 400, "request line"),
        (b"GET / HTTP/1.1\nHost: a\n\n", 400, "request line"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\x00\x03", 400, "request line"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/1.1"),
        (b"GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505, "HTTP/1.1"),
        (b"GET / HTTP/+1.1\r\nHost: a\r\n\r\n", 400, "request line"),
        (b"get / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "request line"),
        (b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "request line"),
        (b"GET /a\x00b HTTP/1.1\r\nHost: a\r\n\r\n", 400, "request line"),
        (b"GET /a\xff HTTP/1.1\r\nHost: a\r\n\r\n", 400, "request line"),
        (b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400, "path"),
        (b"GET //[ HTTP/1.1\r\nHost: a\r\n\r\n", 400, "path"),
        (b"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400, "path"),
        (b"OPTIONS http://b/c HTTP/1.1\r\nHost: a\r\n\r\n", 400, "path"),
        (b"GET http://b/c HTTP/1.1\r\nHost: a\r\n\r\n", 400, "path"),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "path"),
        (GET + b"X: b\r\n c\r\n\r\n", 400, "name"),
        (GET + b"Expect: tea\r\n\r\n", 417, "Expect"),
        (POST + b"Content-Length: +5\r\n\r\nabcde", 400, "Content-Length"),
        (POST + b"Content-Length: 1_0\r\n\r\nabcde", 400, "Content-Length"),
        (POST + b"Content-Length: \xb2\r\n\r\nabcde", 400, "Content-Length"),
        (POST + b"Content-Length: \r\n\r\nabcde", 400, "Content-Length"),
        (POST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", 400, "Content-Length"),
        (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, "chunked"),
        (POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 501, "chunked"),
        (POST + b"Transfer-Encoding: \r\n\r\n0\r\n\r\n", 501, "chunked"),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "HTTP/1.0"),
        (CHUNKED + b"F" * 90 + b"\r\nabc\r\n0\r\n\r\n", 400, "chunk"),
        (CHUNKED + b"-5\r\nabc\r\n0\r\n\r\n", 400, "chunk"),
        (CHUNKED + b"0x5\r\nabcde\r\n0\r\n\r\n", 400, "chunk"),
        (CHUNKED + b"\r\nabcde\r\n0\r\n\r\n", 400, "chunk"),
        (CHUNKED + b"5\nabcde\r\n0\r\n\r\n", 400, "chunk"),
        (CHUNKED + b"5\r\nabcdefg\r\n0\r\n\r\n", 400, "chunk"),
        (CHUNKED + b"1\r\na\r\n" * 20_000, 400, "chunks"),
    ],
)
def test_what_is_no_request_is_refused_in_the_form_of_all_errors(
    socket_path: Path, data: bytes, status: int, message: str, no_faults: None
) -> None:
    found, error = refused(say(socket_path, data))
    assert (found, message in error["message"]) == (status, True), error


@pytest.mark.parametrize(
    ("data", "answers"),
    [
        (AGAIN * 3, ["GET /again 0"]),
        (AGAIN.replace(b"Connection: close\r\n", b"") * 9 + AGAIN, ["GET /again 0"] * 10),
        (b"\r\n" + AGAIN, ["GET /again 0"]),
        (GET + b"Content-Length: 5\r\n\r\nabcde" + AGAIN, ["GET / 5", "GET /again 0"]),
        (DELETE + b"Content-Length: 1\r\n\r\na" + AGAIN, ["DELETE / 1", "GET /again 0"]),
        (POST + b"Content-Length: 0\r\n\r\n" + AGAIN, ["POST / 0", "GET /again 0"]),
        (CHUNKED + b"2;a=b\r\n{}\r\n0\r\nX-Roles: admin\r\n\r\n", ["POST / 2"]),
        (CHUNKED + b"1\r\na\r\n" * 500 + b"0\r\n\r\n" + AGAIN, ["POST / 500"]),
        (b"OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", ["OPTIONS /* 0"]),
        (b"GET /a%2Fb HTTP/1.0\r\n\r\n", ["GET /a%2Fb 0"]),
    ],
)
def test_pipelined_requests_are_separated(
    socket_path: Path, data: bytes, answers: list[str], no_faults: None
) -> None:
    got = say(socket_path, data).decode().split(";")
    bodies = [line.rpartition("\r\n\r\n")[2] for line in got]
    assert [each for each in bodies if each] == answers


@pytest.mark.spec("API-04")
def test_head_is_answered_without_a_body(socket_path: Path) -> None:
    head = AGAIN.replace(b"GET", b"HEAD").replace(b"Connection: close\r\n", b"")
    first, second, _ = say(socket_path, head + AGAIN).split(b"\r\n\r\n")
    assert b"Content-Length: 14\r\n" in first, "that of the body which GET would have"
    assert second.startswith(b"HTTP/1.1 200 "), "the response to the next request"
    chunked = b"Transfer-Encoding: gzip\r\n\r\n"
    assert say(socket_path, b"HEAD / HTTP/1.1\r\nHost: a\r\n" + chunked).startswith(b"HTTP/1.1 501")
    bad = say(socket_path, b"HEAD / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n")
    assert bad.startswith(b"HTTP/1.1 400 ")
    assert bad.endswith(b"\r\n\r\n")


def test_what_follows_a_body_that_was_not_read_is_no_request(socket_path: Path) -> None:
    answered = say(socket_path, POST + b"Content-Length: %d\r\n\r\n" % (BODY + 1) + AGAIN)
    assert answered.count(b"HTTP/1.1") == 1


def test_a_client_is_asked_for_its_body_only_when_it_will_be_read(socket_path: Path) -> None:
    for word in (b"100-continue", b"100-Continue"):
        with dial(socket_path) as client:
            head = POST + b"Connection: close\r\nExpect: %s\r\n" % word
            client.sendall(head + b"Content-Length: 3\r\n\r\n")
            assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.sendall(b"abc")
            assert rest(client).endswith(b"POST / 3;")
    large = say(socket_path, POST + b"Expect: 100-continue\r\nContent-Length: 9999999\r\n\r\n")
    assert large.startswith(b"HTTP/1.1 200 ")


@pytest.mark.spec("API-13")
def test_clients_that_send_slowly_hold_no_thread(serve: Any) -> None:
    path = serve(threads=1, reading=300)
    begun = [
        b"GET",
        b"GET / HTTP/1.1\r\nHo",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\nab",
    ]
    slow = [dial(path) for _ in range(30)]
    for index, client in enumerate(slow):
        client.sendall(begun[index % 3])
    began = time.monotonic()
    assert say(path, AGAIN).endswith(b"GET /again 0;")
    slow[1].sendall(b"st: a\r\nConnection: close\r\n\r\n")
    assert rest(slow[1]).endswith(b"GET / 0;")
    assert time.monotonic() - began < 150
    for client in slow:
        client.close()


@pytest.mark.spec("API-13")
def test_large_bodies_that_come_slowly_hold_no_thread(serve: Any) -> None:
    path = serve(threads=1, reading=300)
    large = POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % BODY
    begun = [CHUNKED + b"5\r\nab", large + b"ab"] * 8
    ends = [b"cde\r\n0\r\n\r\n", b"c" * (BODY - 2)] * 8
    answers = [b"POST / 5;", b"POST / %d;" % BODY] * 8
    with ExitStack() as stack:
        slow = [stack.enter_context(dial(path)) for _ in begun]
        for client, data in zip(slow, begun, strict=True):
            client.sendall(data)
        assert say(path, AGAIN).endswith(b"GET /again 0;")
        assert say(path, large + b"x" * BODY).endswith(b"POST / %d;" % BODY)
        for client, data, answer in zip(slow, ends, answers, strict=True):
            client.sendall(data)
            assert rest(client).endswith(answer)


@pytest.mark.spec("API-13")
def test_large_bodies_that_come_slowly_take_bounded_memory(serve: Any) -> None:
    path = serve(threads=1, reading=300, unread=4 * BODY)
    head = POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % BODY
    with ExitStack() as stack:
        slow = [stack.enter_context(dial(path)) for _ in range(9)]
        for client in slow:
            client.sendall(head + b"x" * (BODY - 1))
        wait_until(lambda: len(lost(slow)) == 5, "five of them are closed")
        for client in [each for each in slow if each not in lost(slow)]:
            client.sendall(b"x")
            assert rest(client).endswith(b"POST / %d;" % BODY)
        assert say(path, AGAIN).endswith(b"GET /again 0;")


@pytest.mark.spec("API-13", "API-09")
def test_a_large_body_is_received_only_of_a_client_that_is_admitted(tmp_path: Path) -> None:
    def admit(environ: dict[str, Any]) -> None:
        if environ.get("HTTP_X_AUTH_TOKEN") != "good":
            raise HttpError(401, "Unauthorized", "say who you are", {"WWW-Authenticate": "x"})

    path = tmp_path / "api.sock"
    settings = HttpSettings(threads=1, body=BODY)
    server = HttpServer(
        echo, listen_unix(path), settings, render_error=render_json_error, admit=admit
    )
    server.start()
    large = b"Connection: close\r\nContent-Length: %d\r\n\r\n" % BODY
    chunked = b"Transfer-Encoding: chunked\r\n\r\n"
    expecting = b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    try:
        for body in (large, chunked, expecting):
            answer = say(path, POST + body)
            assert refused(answer)[0] == 401
            assert b"WWW-Authenticate: x\r\n" in answer
        good = POST + b"X-Auth-Token: good\r\n" + large + b"x" * BODY
        assert say(path, good).endswith(b"POST / %d;" % BODY)
    finally:
        server.stop(1)


@pytest.mark.spec("API-13")
def test_idle_connection_is_closed_for_a_new_one(serve: Any) -> None:
    path = serve(connections=20, idle=30)
    silent = [dial(path) for _ in range(60)]
    assert say(path, AGAIN).endswith(b"GET /again 0;")
    assert rest(silent[0]) == b""
    for client in silent:
        client.close()


def test_a_request_that_drips_is_given_up_in_time(serve: Any) -> None:
    path = serve(reading=0.4)
    with dial(path) as client:
        began = time.monotonic()
        with suppress(OSError):
            while time.monotonic() - began < 60:
                client.sendall(b"G")
                time.sleep(0.05)
        assert 0.3 < time.monotonic() - began < 15, "by default it has 20 s"


@pytest.mark.spec("API-13")
def test_clients_do_not_take_all_files_that_the_process_may_open(serve: Any) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 200, limits[1]))
    silent: list[socket.socket] = []
    try:
        path = serve(idle=30)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as last:
            last.settimeout(60)
            silent += [dial(path) for _ in range(110)]
            last.connect(str(path))
            last.sendall(AGAIN)
            assert rest(last).endswith(b"GET /again 0;")
    finally:
        for client in silent:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
