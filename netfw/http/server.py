"""The HTTP server: cheroot, with bounds on what clients can make it hold.

A connection has no thread until a request is there: its head, and its body if that is small.  A
request is read in full, within its size and its time, before the application sees it.  When all
threads are busy and the queue is full, clients get 503 at once.
"""

from __future__ import annotations

import logging
import queue
import resource
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from attrs import frozen
from cheroot import wsgi
from cheroot.ssl.builtin import BuiltinSSLAdapter

from netfw.errors import ConfigError
from netfw.http.connection import Connection, Gateway, SlowClientReaper
from netfw.http.http_error import Wording, busy, plain, rendered

log = logging.getLogger(__name__)

WsgiApp = Callable[..., Iterable[bytes]]


@frozen(kw_only=True)
class HttpSettings:
    """What one process spends on clients."""

    threads: int = 16
    queue: int = 128
    """Requests that wait for a thread; beyond them, clients are told to come again."""
    backlog: int = 512
    """Clients that the kernel lets wait to be let in; others find the door shut."""
    connections: int = 2000
    """That are kept open between requests."""
    idle: float = 60.0
    """Seconds that a client may say nothing."""
    reading: float = 20.0
    """Seconds that a whole request may take to arrive."""
    writing: float = 60.0
    """Seconds that an answer may take to leave."""
    body: int = 4 * 1024 * 1024
    """Bytes of a request's body that are read; the application refuses what is longer."""
    headers: int = 32 * 1024


@frozen(kw_only=True)
class TlsFiles:
    """What TLS needs."""

    certificate: str
    key: str
    client_authorities: str | None = None
    """Clients must have a certificate of one of these."""


class HttpServer:
    """Serves an application on a socket that listens already, in threads of its own."""

    def __init__(
        self,
        app: WsgiApp,
        listening: socket.socket,
        settings: HttpSettings | None = None,
        tls: TlsFiles | None = None,
        *,
        wording: Wording = plain,
        name: str = "http",
    ) -> None:
        """:raises ConfigError: the files of TLS cannot be used."""
        self._settings, self._name = settings or HttpSettings(), name
        self._server = _Server(app, listening, self._settings, wording)
        if tls is not None:
            self._server.ssl_adapter = _tls(tls)
        self._failure: list[BaseException] = []
        self._serving = threading.Thread(target=self._serve, name=f"netfw-{name}", daemon=True)

    @property
    def address(self) -> Any:
        """Where it listens."""
        return self._server.listening.getsockname()

    def start(self) -> None:
        """Begin to serve; returns when it does."""
        self._serving.start()
        while not self._server.ready:
            if self._failure or not self._serving.is_alive():
                raise ConfigError(f"{self._name} does not start: {self._failure}")
            time.sleep(0.005)

    def stop(self, seconds: float = 10.0) -> bool:
        """Take no more requests, and let those that run finish; whether all did in time."""
        stopping = threading.Thread(target=self._stop, args=(seconds,), daemon=True)
        stopping.start()
        stopping.join(seconds + 0.5)
        return not stopping.is_alive()

    def _stop(self, seconds: float) -> None:
        self._server.shutdown_timeout = seconds
        self._server.stop()
        self._server.watch.stop()

    def _serve(self) -> None:
        try:
            self._server.start()
        except Exception as exc:
            self._failure.append(exc)
            if self._server.ready:
                log.exception("%s stopped serving", self._name)


class _Server(wsgi.Server):
    """Cheroot on a socket that listens already."""

    ConnectionClass = Connection
    _connections: Any

    def __init__(
        self, app: WsgiApp, listening: socket.socket, settings: HttpSettings, wording: Wording
    ) -> None:
        unix = listening.family == socket.AF_UNIX
        name = listening.getsockname()
        super().__init__(
            name or "unnamed" if unix else name[:2],
            app,
            numthreads=settings.threads,
            max=settings.threads,
            server_name="netfw",
            request_queue_size=settings.backlog,
            accepted_queue_size=settings.queue,
            accepted_queue_timeout=0,
            peercreds_enabled=unix,
        )
        self.gateway = Gateway
        self.timeout = settings.idle
        self.expiration_interval = 0.2
        self.settings, self.listening, self.wording = settings, listening, wording
        self._busy = rendered(busy(), wording)
        self.watch = SlowClientReaper(settings)
        self.waiting = threading.BoundedSemaphore(max(1, settings.threads // 2))
        """Threads that may wait for large bodies; the others are for who has sent his."""
        self.max_request_header_size = settings.headers
        self.keep_alive_conn_limit = _affordable(settings.connections)

    def prepare(self) -> None:
        self.watch.start()
        super().prepare()

    def bind(self, family: int, type: int, proto: int = 0) -> socket.socket:
        self.socket = self.listening
        return self.listening

    def bind_unix_socket(self, bind_addr: Any) -> socket.socket:
        self.socket = self.listening
        return self.listening

    def process_conn(self, conn: Any) -> None:
        """Wait, without a thread, until a new client says something; then queue it."""
        if conn.fresh:
            conn.fresh = False
            if not self.can_add_keepalive_connection:
                self._make_room()
            self.put_conn(conn)
            return
        try:
            self.requests.put(conn)
        except queue.Full:
            self._turn_away(conn)

    def put_conn(self, conn: Any) -> None:
        """Wait for what the client says next; without, when the server ends meanwhile."""
        try:
            super().put_conn(conn)
        except (OSError, ValueError, KeyError):
            conn.close()

    def _make_room(self) -> None:
        """Hang up on those that have said nothing for the longest, so that others get in."""
        waiting = self._connections._selector
        known = [pair for pair in waiting.connections if pair[1] is not self]
        known.sort(key=lambda pair: pair[1].last_used)
        for number, conn in known[: 1 + len(known) // 50]:
            waiting.unregister(number)
            conn.close()

    def _turn_away(self, conn: Any) -> None:
        """Tell a client to come again, without waiting for it."""
        try:
            conn.socket.settimeout(0)
            if not isinstance(conn.socket, ssl.SSLSocket):
                conn.socket.recv(65_536)
                conn.socket.send(self._busy)
        except OSError:
            pass
        conn.close()

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:
        """What clients and networks do to a connection is no error of the server."""
        if level < logging.ERROR or isinstance(sys.exc_info()[1], OSError):
            log.debug("%s", msg)
        else:
            log.log(level, "%s", msg, exc_info=traceback)


def _affordable(connections: int) -> int:
    """How many of them leave the process, and a second server in it, files for other things."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = connections if allowed == resource.RLIM_INFINITY else max(1, allowed // 4)
    if most < connections:
        log.info(
            "%d connections are kept, not %d: the process may open %d files (ulimit -n)",
            most,
            connections,
            allowed,
        )
    return min(most, connections)


class _Adapter(BuiltinSSLAdapter):
    """TLS whose handshake is the business of the connection's own thread."""

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict[str, str]]:
        wrapped = self.context.wrap_socket(sock, do_handshake_on_connect=False, server_side=True)
        return wrapped, {"wsgi.url_scheme": "https", "HTTPS": "on"}


def _tls(files: TlsFiles) -> _Adapter:
    try:
        adapter = _Adapter(files.certificate, files.key)
        adapter.context.minimum_version = ssl.TLSVersion.TLSv1_2
        if files.client_authorities is not None:
            adapter.context.load_verify_locations(files.client_authorities)
            adapter.context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ValueError) as exc:
        raise ConfigError(
            f"TLS cannot be served with {files.certificate} and {files.key}: {exc}"
        ) from exc
    return adapter
