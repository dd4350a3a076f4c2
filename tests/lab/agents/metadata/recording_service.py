"""A metadata service that behaves as a test wants, and remembers who asked what."""

from __future__ import annotations

import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from attrs import field, frozen


@frozen(kw_only=True)
class Seen:
    """A request that arrived."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""

    def values(self, name: str) -> list[str]:
        """Return all values of the headers of that name, in any spelling."""
        plain = name.lower().replace("_", "-")
        return [value for key, value in self.headers if key.lower().replace("_", "-") == plain]


@frozen(kw_only=True)
class Response:
    """What the service answers."""

    body: bytes = b"metadata\n"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/plain"),)
    after: float = field(default=0.0)
    """Seconds that it thinks about it."""
    raw: bytes | None = None
    """Bytes to send instead, before it hangs up."""
    late: bytes = b""
    """Bytes to send a second after the answer, on the same connection."""


Behaviour = Callable[[Seen], Response]


class RecordingService:
    """Serves HTTP at *address*, or HTTPS with *context*, until closed; ``seen`` has the requests.

    What it answers is up to ``behave``, which may be replaced at any time.  A service that does not
    read bodies takes them for the next request, as some do for methods that have none.
    """

    def __init__(
        self, address: tuple[str, int] = ("127.0.0.1", 0), context: ssl.SSLContext | None = None
    ) -> None:
        self.seen: list[Seen] = []
        self.behave: Behaviour = lambda _: Response()
        self.reads_bodies = True
        self._server = _Server(address, self)
        if context is not None:
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def connections(self) -> int:
        """Number of connections that were accepted so far."""
        return self._server.accepted

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        """End it, and hang up; who asks now is refused."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serving_context(certificate: Path, key: Path, clients: Path | None = None) -> ssl.SSLContext:
    """Return a TLS context with that certificate; *clients* is the authority that clients need."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if clients is not None:
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class _Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True

    def __init__(self, address: tuple[str, int], service: RecordingService) -> None:
        self.service = service
        self.accepted = 0
        self._open: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        super().__init__(address, _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        request, address = super().get_request()
        self._open.add(request)
        self.accepted += 1
        return request, address

    def server_close(self) -> None:
        super().server_close()
        for each in list(self._open):
            with suppress(OSError):
                socket.socket.shutdown(each, socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that hang up or are not trusted."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Write no log."""

    def _answer(self) -> None:
        service = self.server.service
        length = int(self.headers.get("Content-Length") or 0) if service.reads_bodies else 0
        seen = Seen(
            method=self.command,
            target=self.path,
            headers=tuple(self.headers.items()),
            body=self.rfile.read(length) if length else b"",
        )
        service.seen.append(seen)
        result = service.behave(seen)
        time.sleep(result.after)
        if result.raw is not None:
            self.wfile.write(result.raw)
            self.close_connection = True
            return
        self.send_response_only(result.status)
        for name, value in result.headers:
            self.send_header(name, value)
        if result.status not in (204, 304):
            self.send_header("Content-Length", str(len(result.body)))
        self.end_headers()
        if self.command != "HEAD" and result.status not in (204, 304):
            self.wfile.write(result.body)
        if result.late:
            time.sleep(1)
            self.wfile.write(result.late)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = _answer
