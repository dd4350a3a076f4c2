"""HTTP connection: requests are read within limits, and use a thread only while they are handled.

cheroot's own reading of requests is not used: it reads bodies of any size, waits for slow clients
in its threads, and sends errors in a format of its own.
"""

from __future__ import annotations

import io
import logging
import select
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from cheroot import server as cheroot_server
from cheroot import wsgi

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.http.http_error import HttpError, malformed, render_response
from netfw.http.request_buffer import ReadState, RequestBuffer
from netfw.http.request_parser import Head, parse_head
from netfw.http.unsent_responses import ResponseBuffer

if TYPE_CHECKING:
    from netfw.http.server import HttpSettings

LOG = logging.getLogger(__name__)

LINGERING = 256 * 1024
"""Bytes to discard after an error response, so that the client can read the response."""

_OWN_WORDS = {
    408: ("HTTPRequestTimeout", "the request did not arrive in time"),
    500: ("HTTPInternalServerError", "the server made a mistake; its log has the details"),
}


class SlowClientReaper:
    """Shuts down connections whose client is too slow to send a request or to read a response."""

    def __init__(self, settings: HttpSettings) -> None:
        self._limits = {"reading": settings.reading, "writing": settings.writing}
        self._lock = threading.Lock()
        self._since: dict[HttpConnection, tuple[str, float]] = {}
        self._stopped = threading.Event()

    def start(self) -> None:
        """Start the thread.

        :raises BackendUnavailable: the machine has no thread left.
        """
        start_daemon_thread("netfw-http-watch", "slow clients cannot be closed", self._run)

    def stop(self) -> None:
        """Stop the thread."""
        self._stopped.set()

    def note(self, connection: HttpConnection, phase: str | None) -> None:
        """Start the clock of *phase*, or stop it (``None``); one of reading goes on."""
        with self._lock:
            if phase is None:
                self._since.pop(connection, None)
            elif phase != "reading" or self._since.get(connection, ("",))[0] != phase:
                self._since[connection] = (phase, time.monotonic())

    def _run(self) -> None:
        pause = min(1.0, *self._limits.values())
        while not self._stopped.wait(pause):
            now = time.monotonic()
            with self._lock:
                late = [
                    connection
                    for connection, (phase, since) in self._since.items()
                    if now - since > self._limits[phase]
                ]
                for connection in late:
                    del self._since[connection]
            for connection in late:
                connection.hang_up()


class BodyMemory:
    """Bounds the bytes of the bodies that are awaited: beyond *limit*, the oldest is given up."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._sizes: dict[HttpConnection, int] = {}
        self._total = 0

    def note(self, connection: HttpConnection, size: int) -> None:
        """Record how many bytes of its body *connection* has; 0: it awaits none any more."""
        oldest: HttpConnection | None = None
        with self._lock:
            self._total += size - self._sizes.get(connection, 0)
            if size:
                self._sizes[connection] = size
            else:
                self._sizes.pop(connection, None)
            if self._total > self._limit and len(self._sizes) > 1:
                oldest = next(iter(self._sizes))
                self._total -= self._sizes.pop(oldest)
        if oldest is not None:
            oldest.hang_up()


class HttpRequest(cheroot_server.HTTPRequest):
    """A request, created when its head has arrived in full.

    While its body is awaited, its connection is registered with the selector again.
    """

    head: Head
    method = b""
    """Empty until the head is parsed."""
    awaits_body = False

    def parse_request(self) -> None:
        """Parse the head, or respond with an error; once."""
        if self.ready:
            return
        self.started_request = True
        longest = self.server.settings.headers
        try:
            self._take(parse_head(self.conn.rfile.head(), longest))
        except HttpError as refusal:
            self.refuse(refusal)
            return
        self.ready = True

    def respond(self) -> None:
        """Call the application once the body has arrived; before, see whether it is wanted."""
        try:
            if not self.awaits_body and self._is_incomplete():
                self._await_body()
                return
            body = self._body()
        except HttpError as refusal:
            self.refuse(refusal)
            return
        self.rfile = _Unread() if body is None else io.BytesIO(body)
        self.server.watch.note(self.conn, None)
        self.server.gateway(self).respond()
        self.ensure_headers_sent()
        if self.conn.successor is not None:
            self.conn.is_chunked, self.conn.is_handed_over = self.chunked_write, True
        elif self.chunked_write:
            self.conn.wfile.write(b"0\r\n\r\n")

    def refuse(self, refusal: HttpError) -> None:
        """Respond with *refusal*, and close the connection."""
        self._end_with(refusal)

    def simple_response(self, status: Any, msg: Any = "") -> None:
        """Respond with an error of cheroot, in the format of all errors."""
        number = int(str(status)[:3])
        word, text = _OWN_WORDS.get(number, _OWN_WORDS[500])
        self._end_with(HttpError(number, word, str(msg) or text))

    def _end_with(self, refusal: HttpError) -> None:
        self.close_connection = self.sent_headers = True
        self.conn.server.watch.note(self.conn, "writing")
        with suppress(OSError):
            response = render_response(refusal, self.conn.server.render_error)
            head, end, _ = response.partition(b"\r\n\r\n")
            self.conn.wfile.write(head + end if self.method == b"HEAD" else response)
        self.conn.lingers = True

    def _take(self, head: Head) -> None:
        self.head, self.rfile = head, _Unread()
        self.method, self.uri = head.method, head.target
        self.path, self.qs, self.authority = head.path, head.query, b""
        self.inheaders = dict(head.headers)
        self.request_protocol = b"HTTP/%d.%d" % head.version
        self.response_protocol = self.request_protocol.decode()
        self.chunked_read = head.chunked
        self.close_connection = not head.keep_alive or head.chunked
        # What follows a chunked body is not parsed.

    def _is_incomplete(self) -> bool:
        """Return whether a body is missing that the server would read."""
        if self.head.length > self.server.settings.body:
            return False
        return self.head.chunked or not self.conn.rfile.holds(self.head.length)

    def _await_body(self) -> None:
        """Let the connection gather the body, if the client may send one.

        :raises HttpError: it may not.
        """
        self.server.admit(self.server.gateway(self).env)
        incoming: RequestBuffer = self.conn.rfile
        if self.head.expects:
            self.conn.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self.head.chunked:
            self.conn.lingers = True
            incoming.await_chunks(self.server.settings.body)
        else:
            incoming.await_body(self.head.length)
        self.awaits_body = True
        self.conn.request = self
        self.server.bodies.note(self.conn, incoming.size)

    def _body(self) -> bytes | None:
        """Return the body; ``None`` if its declared length is more than the server reads."""
        if self.head.length > self.server.settings.body:
            self.close_connection = True
            return None
        incoming: RequestBuffer = self.conn.rfile
        try:
            return incoming.read_chunks() if self.head.chunked else incoming.read(self.head.length)
        except ValueError as exc:
            raise malformed(str(exc)) from exc


class _Unread:
    """A body that has not arrived, or is too large."""

    @staticmethod
    def read(size: int | None = None) -> bytes:
        return b""


class Successor(Protocol):
    """Goes on with a response that has no end, in threads of its own."""

    def adopt(self, connection: HttpConnection) -> None:
        """Take *connection* over; its response has begun."""

    def release(self) -> None:
        """Note that the connection is closed, whether it was adopted or not."""


class HttpConnection(cheroot_server.HTTPConnection):
    """A connection that uses no thread until a request has arrived."""

    RequestHandlerClass: Any = HttpRequest
    server: Any
    fresh = True
    """Whether it was accepted just now, and is not registered with the selector yet."""
    lingers = False
    """Whether the client may still send while the last response is sent."""
    is_shut_down = False
    """Whether this server shut it down, since its client was too slow."""
    request: HttpRequest | None = None
    """The request whose body is awaited."""
    successor: Successor | None = None
    """What the application hands the connection to after the head of its response."""
    is_handed_over = False
    is_chunked = False
    """Whether what follows that head is sent in chunks."""

    def __init__(self, server: Any, sock: socket.socket, makefile: Any = None) -> None:
        super().__init__(server, sock, makefile)
        sock.settimeout(0)
        self.rfile = RequestBuffer(sock, server.settings.headers)
        self.wfile = ResponseBuffer(sock)

    def communicate(self) -> bool:
        """Read and handle a request; return whether the connection stays open for more."""
        self.server.watch.note(self, "reading")
        try:
            read_state = self.rfile.gather()
        except OSError as exc:
            LOG.debug("connection lost: %s", exc)
            return False
        if read_state is not ReadState.COMPLETE:
            if self.request is not None:
                self.server.bodies.note(self, self.rfile.size)
            return read_state is ReadState.UNDER_WAY
        try:
            return self._handle()
        finally:
            if self.request is None:
                self.server.watch.note(self, "writing" if self.wfile.pending else None)

    def _handle(self) -> bool:
        """Handle a request: a new one, or the one whose body was awaited."""
        if self.request is not None:
            awaited, self.request = self.request, None
            self.server.bodies.note(self, 0)
            self.RequestHandlerClass = lambda *_: awaited
        try:
            keep = bool(super().communicate())  # type: ignore[no-untyped-call]
        finally:
            self.RequestHandlerClass = HttpRequest  # the request, and its body, can be freed
        return keep or self.is_handed_over or self.request is not None

    def hand_over(self, successor: Successor) -> None:
        """Let *successor* go on with the response of the present request, after its head."""
        self.successor = successor

    def close(self) -> None:
        """Close the connection in any state, after the rest of its response was sent."""
        if self.wfile.pending:
            self.server.writer.add(self, keep=False)
        else:
            self.abandon()

    def abandon(self) -> None:
        """Close the connection, whether its response was sent or not."""
        self.server.watch.note(self, None)
        self.server.bodies.note(self, 0)
        if self.lingers:
            self._discard_input()
        with suppress(OSError, ValueError):
            super().close()
        if self.successor is not None:
            self.successor.release()

    def is_abandoned(self) -> bool:
        """Return whether the client is gone, so that no response would be read.

        For unix sockets; a client that only shut down its sending side is not gone.  For TCP this
        cannot be detected.
        """
        poller = select.poll()
        poller.register(self.socket, 0)
        return bool(poller.poll(0))

    def hang_up(self) -> None:
        """Shut the socket down; this wakes the thread that waits for the client."""
        self.is_shut_down = True
        try:
            # Not the method of SSLSocket: it would block, or clear state that the thread uses.
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)
        except OSError:
            return
        LOG.info("connection shut down: the client was too slow")

    def _discard_input(self) -> None:
        """Discard what the client sent meanwhile; else it would get a reset, not the response."""
        left = LINGERING
        with suppress(OSError):
            self.socket.settimeout(0)
            while left > 0 and (piece := self.socket.recv(65_536)):
                left -= len(piece)


class WsgiGateway(wsgi.Gateway_10):
    """Calls the application; the environ has the peer credentials, and a test for a lost client."""

    def get_environ(self) -> dict[str, Any]:  # type: ignore[override]
        """Return the environ of the request."""
        environ: dict[str, Any] = super().get_environ()  # type: ignore[no-untyped-call]
        credentials = _credentials(self.req.conn)
        if credentials is not None:
            environ["netfw.peer_credentials"] = credentials
        environ["netfw.is_abandoned"] = self.req.conn.is_abandoned
        environ["netfw.hand_over"] = self.req.conn.hand_over
        return environ

    def write(self, chunk: bytes) -> None:
        """Send a part of the response, within the time limit; of one to HEAD, the headers only."""
        connection = self.req.conn
        if self.req.method == b"HEAD":
            self.req.ensure_headers_sent()
            return
        connection.server.watch.note(connection, "writing")
        super().write(chunk)


def _credentials(connection: Any) -> tuple[int, int, int] | None:
    if connection.socket.family != socket.AF_UNIX:
        return None
    pid, uid, gid = connection.get_peer_creds()
    return int(pid), int(uid), int(gid)
