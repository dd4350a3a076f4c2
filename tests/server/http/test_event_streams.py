"""Server-sent events over the HTTP server: bounds, gaps, and clients that are slow or gone."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from netfw.http.event_streams import CONTENT_TYPE, EventStreams, StreamSettings
from netfw.http.http_error import HttpError
from netfw.http.listen_sockets import listen_unix
from netfw.http.server import HttpServer, HttpSettings
from netfw.http.unix_connection import UnixConnection
from netfw.testing.lab.wait import wait_until
from tests.thread_limit import no_threads

pytestmark = pytest.mark.spec("DRV-50")


def streaming_app(streams: EventStreams) -> Any:
    """Return an application with a stream at /events, for the owner in X-Owner."""

    def wsgi(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/events":
            start("200 OK", [("Content-Length", "2")])
            return [b"ok"]
        known = environ.get("HTTP_LAST_EVENT_ID", "")
        try:
            stream = streams.reserve(environ.get("HTTP_X_OWNER", ""), known)
        except HttpError as exc:
            body = str(exc).encode()
            headers = [("Content-Length", str(len(body))), *exc.headers.items()]
            start("503 Service Unavailable", headers)
            return [body]
        environ["netfw.hand_over"](stream)
        start("200 OK", [("Content-Type", CONTENT_TYPE)])
        return []

    return wsgi


class Reader:
    """A client with one stream."""

    def __init__(self, path: Path, **headers: str) -> None:
        self.connection = UnixConnection(path, timeout=30)
        self.connection.request("GET", "/events", headers=headers)
        self.answer = self.connection.getresponse()

    def event(self) -> dict[str, str]:
        """Return the next event, without comments."""
        fields: dict[str, str] = {}
        while line := self.answer.readline().decode():
            if line == "\n" and fields:
                return fields
            if line != "\n" and not line.startswith(":"):
                name, _, value = line.rstrip("\n").partition(": ")
                fields[name] = value
        raise EOFError

    def close(self) -> None:
        self.answer.close()
        self.connection.close()


Opener = Callable[..., Reader]


@pytest.fixture
def streams(request: pytest.FixtureRequest) -> Iterator[EventStreams]:
    made = EventStreams(StreamSettings(**{"pause": 0.0, **getattr(request, "param", {})}))
    made.publish("one")
    yield made
    made.close()


@pytest.fixture
def server(streams: EventStreams, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "api.sock"
    http_server = HttpServer(streaming_app(streams), listen_unix(path), HttpSettings(threads=2))
    http_server.start()
    yield path
    streams.close()
    assert http_server.stop(60)


@pytest.fixture
def open_stream(server: Path) -> Iterator[Opener]:
    readers: list[Reader] = []

    def opened(**headers: str) -> Reader:
        readers.append(Reader(server, **headers))
        return readers[-1]

    yield opened
    for each in readers:
        each.close()


def test_streams_use_no_thread_of_requests(
    streams: EventStreams, server: Path, open_stream: Opener
) -> None:
    readers = [open_stream(**{"Last-Event-ID": "one"}) for _ in range(8)]
    other = UnixConnection(server, timeout=30)
    other.request("GET", "/")
    assert other.getresponse().read() == b"ok"  # of two threads, none is taken
    other.close()
    streams.publish("two")
    assert {reader.event()["id"] for reader in readers} == {"two"}
    assert sum(each.name == "netfw-events" for each in threading.enumerate()) == 1


def test_a_client_that_was_away_gets_one_event_and_one_that_was_not_gets_none(
    streams: EventStreams, open_stream: Opener
) -> None:
    away, fresh = open_stream(**{"Last-Event-ID": "zero"}), open_stream()
    present = open_stream(**{"Last-Event-ID": "one"})
    assert away.event() == fresh.event() == {"id": "one", "event": "changed", "data": "{}"}
    streams.publish("two")
    assert present.event()["id"] == "two"


@pytest.mark.parametrize("streams", [{"pause": 0.2}], indirect=True)
def test_changes_in_quick_succession_are_one_event(
    streams: EventStreams, open_stream: Opener
) -> None:
    began = time.monotonic()
    reader = open_stream()
    assert reader.event()["id"] == "one"
    for number in range(500):
        streams.publish(f"n{number}")
    ids = [reader.event()["id"]]
    while ids[-1] != "n499":
        ids.append(reader.event()["id"])
    assert len(ids) <= (time.monotonic() - began) / 0.2  # in most cases two


@pytest.mark.parametrize("streams", [{"most": 3, "most_per_owner": 2}], indirect=True)
def test_beyond_the_limits_of_all_and_of_one_owner_a_client_gets_503(
    streams: EventStreams, open_stream: Opener
) -> None:
    first = open_stream(**{"X-Owner": "a"})
    open_stream(**{"X-Owner": "a"})
    refused = open_stream(**{"X-Owner": "a"})
    assert refused.answer.status == 503
    assert refused.answer.headers["Retry-After"] == "10"
    assert b"of your project" in refused.answer.read()
    assert open_stream(**{"X-Owner": "b"}).answer.status == 200
    assert open_stream(**{"X-Owner": "b"}).answer.status == 503
    first.close()
    wait_until(lambda: len(streams) == 2)
    assert open_stream(**{"X-Owner": "a"}).answer.status == 200


@pytest.mark.parametrize("streams", [{"keep_alive": 0.2}], indirect=True)
def test_comments_keep_an_idle_stream_alive(streams: EventStreams, open_stream: Opener) -> None:
    reader = open_stream(**{"Last-Event-ID": "one"})
    assert [reader.answer.readline() for _ in range(4)] == [b": alive\n", b"\n"] * 2


@pytest.mark.parametrize("streams", [{"keep_alive": 0.1, "lifetime": 0.3}], indirect=True)
def test_a_stream_ends_after_its_lifetime(streams: EventStreams, open_stream: Opener) -> None:
    reader = open_stream(**{"Last-Event-ID": "one"})
    with pytest.raises((EOFError, http.client.IncompleteRead, ConnectionError)):
        reader.event()
    wait_until(lambda: len(streams) == 0)


@pytest.mark.parametrize("streams", [{"keep_alive": 0.05}], indirect=True)
def test_a_client_that_reads_nothing_is_disconnected(streams: EventStreams, server: Path) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        client.connect(str(server))
        client.sendall(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: len(streams) == 1)
        numbers = iter(range(10**9))

        def is_gone() -> bool:
            for _ in range(50):
                streams.publish(f"n{next(numbers)}")
            return len(streams) == 0

        wait_until(is_gone)


def test_a_client_that_sends_more_or_goes_away_loses_its_stream(
    streams: EventStreams, server: Path
) -> None:
    for farewell in (b"GET / HTTP/1.1\r\n\r\n", b""):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(server))
            client.sendall(b"GET /events HTTP/1.0\r\nHost: x\r\n\r\n")
            wait_until(lambda: len(streams) == 1)
            client.sendall(farewell)
            if not farewell:
                client.shutdown(socket.SHUT_WR)
            wait_until(lambda: len(streams) == 0)


def test_a_server_that_stops_ends_its_streams(streams: EventStreams, open_stream: Opener) -> None:
    reader = open_stream(**{"Last-Event-ID": "one"})
    wait_until(lambda: len(streams) == 1)
    streams.close()
    with pytest.raises((EOFError, http.client.IncompleteRead, ConnectionError)):
        reader.event()
    assert len(streams) == 0
    with pytest.raises(HttpError, match="too many"):
        streams.reserve("late")


def test_streams_open_later_if_their_thread_was_refused() -> None:
    streams = EventStreams()
    with no_threads(), pytest.raises(HttpError):
        streams.reserve("owner")
    assert len(streams) == 0
    streams.reserve("owner")
    assert len(streams) == 1
    streams.close()
