"""Endpoint of an OpenFlow connection: the sockets to a switch, by whichever side connects."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from netfw.errors import ConfigError

if TYPE_CHECKING:
    import ssl

    from netfw.ovs.openflow.tls import SwitchTls, TlsSocket

    Socket = socket.socket | TlsSocket

_KINDS = (
    "neither unix:PATH nor tcp:HOST:PORT, ssl:HOST:PORT, ptcp:PORT[:ADDRESS] or pssl:PORT[:ADDRESS]"
)


class OpenFlowEndpoint:
    """Opens one connection after the other with the switch behind *target*.

    ``ptcp:PORT[:ADDRESS]`` and ``pssl:PORT[:ADDRESS]`` listen, on all addresses if there is none,
    and take one switch at a time: another one waits until the connection with the first is lost.
    ``ssl:`` and ``pssl:`` need *tls*; both ends must have a certificate.
    """

    def __init__(self, target: str, timeout: float, tls: SwitchTls | None) -> None:
        """Prepare the endpoint *target*.

        :raises ConfigError: the files of TLS are missing or cannot be used.
        """
        self._kind, _, self._rest = target.partition(":")
        self._target, self._timeout = target, timeout
        self.listens = self._kind in ("ptcp", "pssl")
        self._lock = threading.Lock()
        self._closed = False
        self._listener: socket.socket | None = None
        self._context: ssl.SSLContext | None = None
        if self._kind in ("ssl", "pssl"):
            if tls is None:
                raise ConfigError(f"{target} needs a private key, a certificate and a CA: pass tls")
            from netfw.ovs.openflow.tls import make_context

            self._context = make_context(tls, listens=self.listens)

    def open(self) -> Socket:
        """Connect, or wait for a switch that does.

        :raises OSError: it failed; the message says why.
        :raises ValueError: the port is not a number.
        """
        sock = self._accept() if self.listens else self._connect()
        try:
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is None:
                return sock
            from netfw.ovs.openflow.tls import shake_hands

            return shake_hands(self._context, sock, self._timeout, listens=self.listens)
        except OSError:
            sock.close()
            raise

    def close(self) -> None:
        """Stop to listen; a call of :meth:`open` that waits for a switch ends."""
        with self._lock:
            self._closed = True
            if self._listener is not None:
                with suppress(OSError):
                    self._listener.shutdown(socket.SHUT_RDWR)
                self._listener.close()

    def _connect(self) -> socket.socket:
        if self._kind == "unix":
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(self._timeout)
            try:
                sock.connect(self._rest)
            except OSError:
                sock.close()
                raise
            return sock
        if self._kind not in ("tcp", "ssl"):
            raise OSError(f"{self._target!r} is {_KINDS}")
        host, _, port = self._rest.rpartition(":")
        return socket.create_connection((host.strip("[]"), int(port)), self._timeout)

    def _accept(self) -> socket.socket:
        with self._lock:
            if self._closed:
                raise OSError("closed")
            if self._listener is None:
                port, _, address = self._rest.partition(":")
                host = address.strip("[]")
                family = socket.AF_INET6 if ":" in host else socket.AF_INET
                self._listener = socket.create_server((host, int(port)), family=family, backlog=1)
            listener = self._listener
        return listener.accept()[0]
