"""Server-sent events: one thread serves all streams of a process.

An event says that something changed, and its id stands for the present state; what changed the
client reads by requests of its own.  So events need no queue: a stream that is behind gets the
newest id once, and a client that was away gets an event unless it names that id.
"""

from __future__ import annotations

import logging
import selectors
import socket
import ssl
import threading
import time
from collections import Counter, deque
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from attrs import define, frozen

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.errors import BackendUnavailable
from netfw.http.http_error import HttpError

if TYPE_CHECKING:
    from netfw.http.connection import HttpConnection

LOG = logging.getLogger(__name__)

CONTENT_TYPE = "text/event-stream; charset=utf-8"
RETRY_AFTER = "10"
"""Seconds after which a client without a stream may ask for one again."""
_ALIVE = b": alive\n\n"
_NOTHING_READ = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


@frozen(kw_only=True)
class StreamSettings:
    """The limits of the streams of one process."""

    most: int = 64
    most_per_owner: int = 16
    keep_alive: float = 15.0
    """Seconds between comments, by which both ends notice a lost connection; a client that has not
    taken the last one is disconnected."""
    pause: float = 1.0
    """Seconds between two events at least."""
    lifetime: float = 600.0
    """Seconds after which a stream ends: the client asks again, and is authenticated again."""


@define(eq=False)
class EventStream:
    """A place for one stream, and its connection once the head of the response was sent."""

    streams: EventStreams
    owner: str
    known: str
    """Id of the last event that the client has."""
    connection: HttpConnection | None = None
    ends_at: float = 0.0
    is_released: bool = False

    def adopt(self, connection: HttpConnection) -> None:
        """Take the connection over from the HTTP server."""
        self.connection = connection
        self.streams.add(self)

    def release(self) -> None:
        """Give the place back; called once the connection is closed."""
        self.streams.release(self)


class EventStreams:
    """The streams of a process; its thread starts with the first one."""

    def __init__(self, settings: StreamSettings | None = None) -> None:
        self._settings = settings or StreamSettings()
        self._lock = threading.Lock()
        self._owners: Counter[str] = Counter()
        self._new: deque[EventStream] = deque()
        self._open: dict[int, EventStream] = {}
        self.newest = ""
        """Id of the present state."""
        self._next_event = self._next_comment = 0.0
        self._thread: threading.Thread | None = None
        self._closed = False

    def __len__(self) -> int:
        return self._owners.total()

    def reserve(self, owner: str, known: str = "") -> EventStream:
        """Return a place for a stream of *owner*, whose client has the event *known*.

        :raises HttpError: 503: there are too many streams, of this owner or of all.
        """
        settings = self._settings
        with self._lock:
            whose = "of your project " if self._owners[owner] >= settings.most_per_owner else ""
            if self._closed or whose or self._owners.total() >= settings.most:
                text = f"too many event streams {whose}are open; try again later, or poll"
                raise HttpError(503, "ServiceUnavailable", text, {"Retry-After": RETRY_AFTER})
            if self._thread is None:
                self._start()
            self._owners[owner] += 1
        return EventStream(self, owner, known)

    def release(self, stream: EventStream) -> None:
        """Give the place of *stream* back, once."""
        with self._lock:
            if not stream.is_released:
                stream.is_released = True
                self._owners[stream.owner] -= 1
                self._owners += Counter()  # drops the owners without streams

    def add(self, stream: EventStream) -> None:
        """Serve a stream whose response has begun."""
        connection = stream.connection
        if connection is None:
            return
        with self._lock:
            if not self._closed:
                self._new.append(stream)
                self._wake()
                return
        connection.abandon()

    def publish(self, id: str) -> None:
        """Send an event to all streams whose clients do not have the state *id*.  Any thread."""
        with self._lock:
            self.newest = id
            if self._thread is not None and not self._closed:
                self._wake()

    def close(self) -> None:
        """End all streams."""
        with self._lock:
            thread, was_closed, self._closed = self._thread, self._closed, True
            if thread is not None and not was_closed:
                self._wake()
        if thread is not None:
            thread.join()

    def _start(self) -> None:
        """Start the thread.

        :raises HttpError: 503: the machine has no thread or file left.
        """
        try:
            with ExitStack() as opened:
                self._open_selector(opened)
                self._thread = start_daemon_thread("netfw-events", "event streams", self._run)
                opened.pop_all()
        except (BackendUnavailable, OSError) as exc:
            LOG.warning("an event stream is refused: %s", exc)
            text = "the server has no place for an event stream; try again later, or poll"
            raise HttpError(503, "ServiceUnavailable", text, {"Retry-After": RETRY_AFTER}) from exc

    def _open_selector(self, opened: ExitStack) -> None:
        self._selector = opened.enter_context(selectors.DefaultSelector())
        self._waker, self._woken = socket.socketpair()
        for end in (self._waker, self._woken):
            opened.enter_context(end).setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # it is full, so the thread wakes up
            self._waker.send(b"x")

    # The thread.

    def _run(self) -> None:
        try:
            while not self._closed:
                self._step()
        except Exception:
            LOG.exception("event streams: internal error; clients poll from now on")
        with self._lock:
            self._closed = True
            left = [*self._open.values(), *self._new]
        for stream in left:
            if stream.connection is not None:
                stream.connection.abandon()
        for each in (self._selector, self._waker, self._woken):
            each.close()

    def _step(self) -> None:
        for key, events in self._selector.select(self._timeout()):
            if key.fileobj is self._woken:
                with suppress(BlockingIOError):
                    self._woken.recv(4096)
            elif events & selectors.EVENT_READ and not self._is_silent(key.fd):
                self._end(key.fd)
            else:
                self._send(key.fd, b"")
        while self._new:
            self._register(self._new.popleft())
        now = time.monotonic()
        if now >= self._next_comment:
            self._next_comment = now + self._settings.keep_alive
            self._send_comments(now)
        if now >= self._next_event and (behind := self._behind()):
            self._next_event = now + self._settings.pause
            self._send_events(behind)

    def _timeout(self) -> float | None:
        """Return how long the thread may sleep: until the next comment, or a postponed event."""
        if not self._open:
            return None
        until = self._next_event if self._behind() else self._next_comment
        return max(0.0, min(until, self._next_comment) - time.monotonic())

    def _behind(self) -> list[int]:
        """Return the streams that want an event, and have nothing left to send."""
        newest = self.newest
        return [
            number
            for number, stream in self._open.items()
            if stream.known != newest and not _pending(stream)
        ]

    def _register(self, stream: EventStream) -> None:
        connection = stream.connection
        if connection is None or (number := connection.socket.fileno()) < 0:
            self.release(stream)
            return
        connection.server.watch.note(connection, None)
        stream.ends_at = time.monotonic() + self._settings.lifetime
        self._open[number] = stream
        self._selector.register(number, selectors.EVENT_READ)
        self._send(number, b"")

    def _send_events(self, numbers: list[int]) -> None:
        newest = self.newest
        for number in numbers:
            self._open[number].known = newest
            self._send(number, f"id: {newest}\nevent: changed\ndata: {{}}\n\n".encode())

    def _send_comments(self, now: float) -> None:
        for number, stream in list(self._open.items()):
            if _pending(stream) or now >= stream.ends_at:
                self._end(number)
            else:
                self._send(number, _ALIVE)

    def _send(self, number: int, data: bytes) -> None:
        """Send *data*, or what is left, without blocking."""
        connection = self._open[number].connection
        if connection is None:
            return
        try:
            connection.wfile.write(_frame(data, connection.is_chunked))
            done = connection.wfile.send()
        except OSError as exc:
            LOG.debug("event stream lost: %s", exc)
            self._end(number)
            return
        waits = 0 if done or connection.wfile.reads_first else selectors.EVENT_WRITE
        self._selector.modify(number, selectors.EVENT_READ | waits)

    def _is_silent(self, number: int) -> bool:
        """Return whether the client sent nothing: it may not, and an end is read as nothing."""
        connection = self._open[number].connection
        try:
            if connection is not None:
                connection.socket.recv(1)
        except _NOTHING_READ:
            return True
        except OSError as exc:
            LOG.debug("event stream lost: %s", exc)
        return False

    def _end(self, number: int) -> None:
        stream = self._open.pop(number)
        self._selector.unregister(number)
        if stream.connection is not None:
            stream.connection.abandon()


def _pending(stream: EventStream) -> bool:
    return stream.connection is not None and bool(stream.connection.wfile.pending)


def _frame(data: bytes, is_chunked: bool) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if data and is_chunked else data
