"""Responses that clients are slow to take: one thread sends the rest of all of them."""

from __future__ import annotations

import logging
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from attrs import frozen

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.errors import BackendUnavailable

if TYPE_CHECKING:
    from netfw.http.connection import HttpConnection

LOG = logging.getLogger(__name__)

_PIECE = 256 * 1024
STOP_CHECK = 0.2
"""Seconds between checks of the time limit while the server stops."""
_WAITS = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class ResponseBuffer:
    """The bytes of responses that the client has not taken yet.

    Takes the place of cheroot's file, whose writes block.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._parts: deque[memoryview] = deque()
        self.bytes_written = 0
        self.reads_first = False
        """Whether TLS must receive before it can send."""

    @property
    def pending(self) -> int:
        """Bytes that are not sent."""
        return sum(map(len, self._parts))

    def write(self, data: bytes) -> None:
        """Send *data* as far as the client takes it, and keep the rest.

        :raises OSError: the connection is lost.
        """
        if data:
            self._parts.append(memoryview(data))
            self.send()

    def send(self) -> bool:
        """Send without blocking; return whether all was sent.

        :raises OSError: the connection is lost.
        """
        try:
            while self._parts:
                sent = self._socket.send(self._parts[0][:_PIECE])
                self.bytes_written += sent
                rest = self._parts[0][sent:]
                if rest:
                    self._parts[0] = rest
                else:
                    self._parts.popleft()
        except _WAITS as wait:
            self.reads_first = isinstance(wait, ssl.SSLWantReadError)
            return False
        except OSError:
            self._parts.clear()
            raise
        return True


@frozen
class _Rest:
    """The rest of a response, when it was handed over."""

    connection: HttpConnection
    keep: bool
    """Whether the connection stays open afterwards."""
    size: int


class UnsentResponseWriter:
    """Sends the rest of responses as clients take them.

    It keeps at most *connections*, and *size* bytes for them unless it keeps only one: beyond, the
    connection that was handed over first is closed.
    """

    def __init__(self, connections: int, size: int) -> None:
        self._connections, self._size = connections, size
        self._new: deque[_Rest] = deque()
        self._rests: dict[int, _Rest] = {}
        self._held = 0
        self._lock = threading.Lock()
        self._serving = False
        self._deadline: float | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread.

        :raises BackendUnavailable: the machine has no thread left.
        """
        self._selector = selectors.DefaultSelector()
        self._waker, self._woken = socket.socketpair()
        for end in (self._waker, self._woken):
            end.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._serving = True
        try:
            failure = "long responses cannot be sent"
            self._thread = start_daemon_thread("netfw-http-write", failure, self._run)
        except BackendUnavailable:
            self._end()
            raise

    def add(self, connection: HttpConnection, *, keep: bool) -> None:
        """Send the rest of a response, then register the connection again or close it."""
        with self._lock:
            serving = self._serving
            if serving:
                self._new.append(_Rest(connection, keep, connection.wfile.pending))
                self._wake()
        if not serving:
            connection.abandon()

    def stop(self, seconds: float) -> None:
        """Send what clients take within *seconds*, close the other connections, and stop."""
        self._deadline = time.monotonic() + seconds
        with self._lock:
            if self._serving:
                self._wake()
        if self._thread is not None:
            self._thread.join(seconds + 1.0)

    def _wake(self) -> None:
        try:
            self._waker.send(b"x")
        except BlockingIOError:
            return  # it is full, so the thread wakes up

    def _run(self) -> None:
        try:
            while self._deadline is None or (self._busy() and time.monotonic() < self._deadline):
                self._step()
        except Exception:
            LOG.exception("HTTP responses to slow clients are not sent any more")
        self._end()

    def _end(self) -> None:
        with self._lock:
            self._serving = False
        for rest in (*self._rests.values(), *self._new):
            rest.connection.abandon()
        for each in (self._selector, self._waker, self._woken):
            each.close()

    def _busy(self) -> bool:
        return bool(self._rests or self._new)

    def _step(self) -> None:
        for key, _ in self._selector.select(None if self._deadline is None else STOP_CHECK):
            if key.fileobj is self._woken:
                self._drain()
            elif key.fd in self._rests:
                self._continue(key.fd)
        while self._new:
            self._register(self._new.popleft())

    def _drain(self) -> None:
        try:
            self._woken.recv(4096)
        except BlockingIOError:
            return

    def _register(self, rest: _Rest) -> None:
        number = rest.connection.socket.fileno()
        if number < 0:
            return
        self._rests[number] = rest
        self._held += rest.size
        self._selector.register(number, _events(rest.connection.wfile))
        while len(self._rests) > self._connections or (
            self._held > self._size and len(self._rests) > 1
        ):
            oldest = next(iter(self._rests))
            LOG.info("HTTP connection closed: too many clients are slow to read responses")
            self._forget(oldest).connection.abandon()

    def _continue(self, number: int) -> None:
        connection: Any = self._rests[number].connection
        try:
            done = connection.wfile.send()
        except OSError as exc:
            LOG.debug("HTTP connection lost: %s", exc)
            self._forget(number).connection.abandon()
            return
        if not done:
            self._selector.modify(number, _events(connection.wfile))
            return
        if self._forget(number).keep:
            connection.server.watch.note(connection, None)
            connection.server.put_conn(connection)
        else:
            connection.close()

    def _forget(self, number: int) -> _Rest:
        rest = self._rests.pop(number)
        self._held -= rest.size
        self._selector.unregister(number)
        return rest


def _events(response: ResponseBuffer) -> int:
    return selectors.EVENT_READ if response.reads_first else selectors.EVENT_WRITE
