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
from typing import TYPE_CHECKING, Any

from cheroot import server as cheroot_server
from cheroot import wsgi

from netfw.http.http_error import HttpError, busy, malformed, render_response
from netfw.http.request_buffer import ReadState, RequestBuffer
from netfw.http.request_parser import Head, parse_head, read_chunks
from netfw.http.response_writer import ResponseBuffer

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
        self._since: dict[Connection, tuple[str, float]] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="netfw-http-watch", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stopped.set()

    def note(self, connection: Connection, phase: str | None) -> None:
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


class Request(cheroot_server.HTTPRequest):
    """A request, created when its head has arrived in full."""

    head: Head

    def parse_request(self) -> None:
        """Parse the head, or respond with an error."""
        self.started_request = True
        longest = self.server.settings.headers
        try:
            self._take(parse_head(self.conn.rfile.head(), longest))
        except HttpError as refusal:
            self.refuse(refusal)
            return
        self.ready = True

    def respond(self) -> None:
        """Read the body, if its size allows, and call the application."""
        try:
            body = self._body(self.head, self.server.settings.body)
        except HttpError as refusal:
            self.refuse(refusal)
            return
        self.rfile = _Unread() if body is None else io.BytesIO(body)
        self.server.watch.note(self.conn, None)
        self.server.gateway(self).respond()
        self.ensure_headers_sent()
        if self.chunked_write:
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
            self.conn.wfile.write(render_response(refusal, self.conn.server.render_error))
        self.conn.lingers = True

    def _take(self, head: Head) -> None:
        self.head = head
        self.method, self.uri = head.method, head.target
        self.path, self.qs, self.authority = head.path, head.query, b""
        self.inheaders = dict(head.headers)
        self.request_protocol = b"HTTP/%d.%d" % head.version
        self.response_protocol = self.request_protocol.decode()
        self.chunked_read = head.chunked
        self.close_connection = not head.keep_alive or head.chunked
        # What follows a chunked body is not parsed.

    def _body(self, head: Head, limit: int) -> bytes | None:
        """Read the body, at most *limit* + 1 bytes; ``None`` if its declared length is more."""
        if head.length > limit:
            self.close_connection = True
            return None
        incoming: RequestBuffer = self.conn.rfile
        if not head.chunked and incoming.holds(head.length):
            return incoming.read(head.length)
        if not self.server.waiting.acquire(blocking=False):
            raise busy()
        try:
            if head.expects:
                self.conn.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            if head.chunked:
                self.conn.lingers = True
                return read_chunks(incoming, limit)
            return incoming.read(head.length)
        except ValueError as exc:
            raise malformed(str(exc)) from exc
        finally:
            self.server.waiting.release()


class _Unread:
    """The body of a request that is too large."""

    @staticmethod
    def read(size: int | None = None) -> bytes:
        return b""


class Connection(cheroot_server.HTTPConnection):
    """A connection that uses no thread until a request has arrived."""

    RequestHandlerClass = Request
    server: Any
    fresh = True
    """Whether it was accepted just now, and is not registered with the selector yet."""
    lingers = False
    """Whether the client may still send while the last response is sent."""

    def __init__(self, server: Any, sock: socket.socket, makefile: Any = None) -> None:
        super().__init__(server, sock, makefile)
        self.rfile = RequestBuffer(sock, server.settings.headers)
        self.wfile = ResponseBuffer(sock)

    def communicate(self) -> bool:
        """Read and handle a request; return whether the connection stays open for more."""
        self.server.watch.note(self, "reading")
        self.socket.settimeout(0)
        try:
            arrival = self.rfile.gather()
        except OSError as exc:
            LOG.debug("connection lost: %s", exc)
            return False
        if arrival is not ReadState.COMPLETE:
            return arrival is ReadState.UNDER_WAY
        self.socket.settimeout(self.server.timeout)
        try:
            return bool(super().communicate())  # type: ignore[no-untyped-call]
        finally:
            if not self.wfile.pending:
                self.server.watch.note(self, None)

    def close(self) -> None:
        """Close the connection in any state, after the rest of its response was sent."""
        if self.wfile.pending:
            self.server.writer.add(self, keep=False)
        else:
            self.abandon()

    def abandon(self) -> None:
        """Close the connection, whether its response was sent or not."""
        self.server.watch.note(self, None)
        if self.lingers:
            self._discard_input()
        with suppress(OSError, ValueError):
            super().close()

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

    def respond(self) -> None:
        """Call the application and send its response."""
        credentials = _credentials(self.req.conn)
        if credentials is not None:
            self.env["netfw.peer_credentials"] = credentials
        self.env["netfw.is_abandoned"] = self.req.conn.is_abandoned
        super().respond()

    def write(self, chunk: bytes) -> None:
        """Send a part of the response, within the time limit."""
        connection = self.req.conn
        connection.server.watch.note(connection, "writing")
        super().write(chunk)


def _credentials(connection: Any) -> tuple[int, int, int] | None:
    if connection.socket.family != socket.AF_UNIX:
        return None
    pid, uid, gid = connection.get_peer_creds()
    return int(pid), int(uid), int(gid)
