"""Clients of the HTTP server that read slowly, or not at all."""

from __future__ import annotations

import http.client
import select
import threading
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from netfw.testing.lab.wait import wait_until
from tests.server.http.http_environment import Unix, ask

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
    _, path = serve(lambda environ: LARGE, threads=1, writing=4.0)
    client = begin(path)
    assert size_read(client) == len(LARGE)
    time.sleep(6.0)
    assert not is_lost(client)


def test_a_stop_sends_what_clients_still_take(serve: Any) -> None:
    server, path = serve(lambda _: LARGE, threads=1)
    client = begin(path)
    stopping = threading.Thread(target=server.stop, args=(60,))
    stopping.start()
    assert size_read(client) == len(LARGE)
    stopping.join(60)
    assert not stopping.is_alive()
