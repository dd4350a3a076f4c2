"""HTTP server: cheroot, with limits on what clients can make it hold.

A connection uses no thread until a request has arrived, and none while its response is sent.  A
request is read in full, within its size and its time, before the application sees it; a body that
is not small, only after the server admitted its head.  When all threads are busy and the queue is
full, clients get 503 at once.
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

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.errors import BackendUnavailable, ConfigError
from netfw.http.connection import BodyMemory, HttpConnection, SlowClientReaper, WsgiGateway
from netfw.http.http_error import ErrorRenderer, busy, render_response, render_text_error
from netfw.http.unsent_responses import UnsentResponseWriter
from netfw.http.worker_pool import WorkerPool

LOG = logging.getLogger(__name__)

WsgiApp = Callable[..., Iterable[bytes]]
Admission = Callable[[dict[str, Any]], object]
"""Called with the environ of a request before its body is received, if that is not small; raises
:class:`~netfw.http.http_error.HttpError` to refuse it."""


def admit_all(environ: dict[str, Any]) -> None:
    """Admit every request."""


@frozen(kw_only=True)
class HttpSettings:
    """The limits of one process."""

    threads: int = 16
    queue: int = 128
    """Requests that wait for a thread; further clients get 503."""
    backlog: int = 512
    """Backlog of listen(2)."""
    connections: int = 2000
    """Connections that are kept open between requests."""
    idle: float = 60.0
    """Seconds after which an idle connection is closed."""
    reading: float = 20.0
    """Seconds within which a whole request must arrive."""
    writing: float = 60.0
    """Seconds within which the client must read a response."""
    body: int = 4 * 1024 * 1024
    """Bytes of a request's body that are read; the application refuses what is longer."""
    headers: int = 32 * 1024
    unread: int = 64 * 1024 * 1024
    """Bytes of large bodies that are under way; beyond, the oldest connection is closed."""
    unsent: int = 64 * 1024 * 1024
    """Bytes of responses that are kept for clients that are slow to read them; beyond, the oldest
    connection is closed."""


@frozen(kw_only=True)
class TlsFiles:
    """Paths of the TLS files."""

    certificate: str
    key: str
    client_authorities: str | None = None
    """CA file; clients must have a certificate of one of these authorities."""


class HttpServer:
    """Serves an application on a socket that listens already, in threads of its own."""

    def __init__(
        self,
        app: WsgiApp,
        listening: socket.socket,
        settings: HttpSettings | None = None,
        tls: TlsFiles | None = None,
        *,
        render_error: ErrorRenderer = render_text_error,
        admit: Admission = admit_all,
        name: str = "http",
    ) -> None:
        """Prepare the server; it answers nothing before it is started.

        :raises ConfigError: the files of TLS cannot be used.
        """
        self._settings, self._name = settings or HttpSettings(), name
        self._server = _Server(app, listening, self._settings, render_error, admit)
        if tls is not None:
            self._server.ssl_adapter = _tls(tls)
        self._failure: list[BaseException] = []
        self._serving: threading.Thread | None = None

    @property
    def address(self) -> Any:
        """The address it listens on."""
        return self._server.listening.getsockname()

    def stalled_for(self) -> float:
        """Return the seconds for which it has accepted nothing, although it serves."""
        turned = self._server.turned_at
        return 0.0 if turned is None else time.monotonic() - turned

    def start(self) -> None:
        """Start to serve, and return once it does.

        :raises BackendUnavailable: the machine has no thread or file left.
        """
        where = self._server.bind_addr
        where = where if isinstance(where, str) else "{} port {}".format(*where)
        failure = f"{self._name} cannot be served on {where}"
        if not self._failure:
            self._serving = start_daemon_thread(f"netfw-{self._name}", failure, self._serve)
        while self._server.turned_at is None:
            if self._serving is None or not self._serving.is_alive():
                raise BackendUnavailable(f"{failure}: {self._failure[0]}") from self._failure[0]
            time.sleep(0.005)

    def stop(self, seconds: float = 10.0) -> bool:
        """Accept no more requests, and finish those under way; return whether all did in time."""
        deadline = time.monotonic() + seconds
        self._server.shutdown_timeout = seconds
        self._server.stop()
        ended = self._server.requests.join(deadline + 0.5)
        self._server.writer.stop(max(0.0, deadline - time.monotonic()))
        self._server.watch.stop()
        return ended

    def _serve(self) -> None:
        try:
            self._server.start()
        except Exception as exc:
            self._failure.append(exc)
            if self._server.turned_at is not None:
                LOG.exception("%s stopped serving", self._name)
            else:
                self.stop(0.0)


class _Server(wsgi.Server):
    """Cheroot on a socket that listens already."""

    ConnectionClass = HttpConnection
    requests: WorkerPool
    _connections: Any

    def __init__(
        self,
        app: WsgiApp,
        listening: socket.socket,
        settings: HttpSettings,
        render_error: ErrorRenderer,
        admit: Admission,
    ) -> None:
        unix = listening.family == socket.AF_UNIX
        name = listening.getsockname()
        super().__init__(
            name or "unnamed" if unix else name[:2],
            app,
            server_name="netfw",
            request_queue_size=settings.backlog,
            peercreds_enabled=unix,
        )
        self.gateway = WsgiGateway
        self.requests = WorkerPool(self, settings.threads, settings.threads, settings.queue, 0)
        self.timeout = settings.idle
        self.expiration_interval = 0.2
        self.settings, self.listening, self.render_error = settings, listening, render_error
        self._busy = render_response(busy(), render_error)
        self.watch = SlowClientReaper(settings)
        self.admit, self.bodies = admit, BodyMemory(settings.unread)
        self.turned_at: float | None = None
        """When the thread that accepts connections was last seen at work; ``None``: not yet."""
        self.max_request_header_size = settings.headers
        self.keep_alive_conn_limit = _connection_limit(settings.connections)
        self.writer = UnsentResponseWriter(self.keep_alive_conn_limit, settings.unsent)

    def prepare(self) -> None:
        self.watch.start()
        self.writer.start()
        super().prepare()
        self._note_turns()

    def _note_turns(self) -> None:
        """Note when the loop of cheroot looks for connections, which it does in each turn."""
        selector = self._connections._selector
        select = selector.select

        def note_and_select(timeout: float) -> Any:
            self.turned_at = time.monotonic()
            return select(timeout=timeout)

        selector.select = note_and_select

    def bind(self, family: int, type: int, proto: int = 0) -> socket.socket:
        self.socket = self.listening
        return self.listening

    def bind_unix_socket(self, bind_addr: Any) -> socket.socket:
        self.socket = self.listening
        return self.listening

    def process_conn(self, conn: Any) -> None:
        """Register a new connection with the selector; queue one that has data.

        Many that are shut down at once would fill the queue.
        """
        if conn.fresh:
            conn.fresh = False
            if not self.can_add_keepalive_connection:
                self._close_idle_connections()
            self.put_conn(conn)
            return
        if conn.is_shut_down:
            conn.close()
            return
        try:
            self.requests.put(conn)
        except queue.Full:
            self._respond_busy(conn)

    def put_conn(self, conn: Any) -> None:
        """Register the connection for its next request, after the rest of its response was sent.

        It is closed if the server stops meanwhile.  One that was handed over is not registered.
        """
        if conn.is_handed_over:
            conn.successor.adopt(conn)
            return
        if conn.wfile.pending:
            self.writer.add(conn, keep=True)
            return
        try:
            super().put_conn(conn)
        except (OSError, ValueError, KeyError):
            conn.close()

    def _close_idle_connections(self) -> None:
        """Close the connections that were idle for the longest, to accept others."""
        waiting = self._connections._selector
        known = [pair for pair in waiting.connections if pair[1] is not self]
        known.sort(key=lambda pair: pair[1].last_used)
        for number, conn in known[: 1 + len(known) // 50]:
            waiting.unregister(number)
            conn.close()

    def _respond_busy(self, conn: Any) -> None:
        """Respond 503 without blocking, and close."""
        try:
            conn.socket.settimeout(0)
            if not isinstance(conn.socket, ssl.SSLSocket):
                conn.socket.recv(65_536)
                conn.socket.send(self._busy)
        except OSError:
            pass
        conn.lingers = True
        conn.close()

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:
        """Log; errors that clients and networks cause are at level debug."""
        if level < logging.ERROR or isinstance(sys.exc_info()[1], OSError):
            LOG.debug("%s", msg)
        else:
            LOG.log(level, "%s", msg, exc_info=traceback)


def _connection_limit(connections: int) -> int:
    """Return at most a quarter of the file limit: a second server and others need files, too."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = connections if allowed == resource.RLIM_INFINITY else max(1, allowed // 4)
    if most < connections:
        LOG.info(
            "keeping %d connections, not %d: the process may open %d files (ulimit -n)",
            most,
            connections,
            allowed,
        )
    return min(most, connections)


class _Adapter(BuiltinSSLAdapter):
    """TLS whose handshake is done by the thread of the connection."""

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
