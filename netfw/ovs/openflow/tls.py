"""TLS of an OpenFlow connection: files, contexts, and a socket that threads may share."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from pathlib import Path

from attrs import fields, frozen

from netfw.errors import ConfigError


@frozen(kw_only=True)
class SwitchTls:
    """Files in PEM by which the two ends of a connection know each other, as ``ovs-vsctl set-ssl``
    names them."""

    private_key: str
    certificate: str
    ca_cert: str
    """Authorities of the switch's certificate, which must have one."""


def make_context(tls: SwitchTls, *, listens: bool) -> ssl.SSLContext:
    """Make the context of one end.  Names are not compared: certificates of switches have none.

    :raises ConfigError: a file cannot be used; the message names it.
    """
    for each in fields(SwitchTls):
        path = getattr(tls, each.name)
        try:
            Path(path).open("rb").close()  # the errors of ssl name no file
        except OSError as exc:
            raise ConfigError(f"{each.name} of an OpenFlow connection: {exc}") from exc
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if listens else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(tls.ca_cert)
        context.load_cert_chain(tls.certificate, tls.private_key)
    except ssl.SSLError as exc:
        raise ConfigError(
            f"{tls.ca_cert}, {tls.certificate} or {tls.private_key} is not PEM, "
            f"or key and certificate do not belong together: {exc.reason or exc}"
        ) from exc
    return context


def shake_hands(
    context: ssl.SSLContext, sock: socket.socket, timeout: float, *, listens: bool
) -> TlsSocket:
    """Return *sock* with TLS.

    :raises OSError: the ends do not accept each other, or it takes longer than *timeout*.
    """
    sock.settimeout(timeout)
    try:
        return TlsSocket(context.wrap_socket(sock, server_side=listens), timeout)
    except ssl.SSLError as exc:
        raise OSError(_words(exc)) from exc


class TlsSocket:
    """A socket with TLS, of which one thread may read while others write.

    OpenSSL allows one call at a time; so no call blocks, and waiting is outside of the lock.
    """

    def __init__(self, sock: ssl.SSLSocket, timeout: float) -> None:
        self._socket, self._timeout = sock, timeout
        self._lock = threading.Lock()
        sock.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def settimeout(self, timeout: float) -> None:
        self._timeout = timeout

    def recv(self, size: int) -> bytes:
        """Return what one record holds; empty at the end.

        :raises OSError: the connection broke, or nothing arrived in time.
        """
        while True:
            try:
                with self._lock:
                    return self._socket.recv(size)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as exc:
                self._wait(exc)
            except ssl.SSLError as exc:
                raise OSError(_words(exc)) from exc

    def sendall(self, data: bytes) -> None:
        """Send all of *data*.

        :raises OSError: the connection broke, or the switch does not read.
        """
        rest = memoryview(data)
        while rest:
            try:
                with self._lock:
                    sent = self._socket.send(rest)
                rest = rest[sent:]
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as exc:
                self._wait(exc)
            except ssl.SSLError as exc:
                raise OSError(_words(exc)) from exc

    def shutdown(self, how: int) -> None:
        """End the connection below TLS, which wakes all who wait for it."""
        socket.socket.shutdown(self._socket, how)

    def close(self) -> None:
        self._socket.close()

    def _wait(self, why: ssl.SSLError) -> None:
        poller = select.poll()
        reads = isinstance(why, ssl.SSLWantReadError)
        poller.register(self._socket, select.POLLIN if reads else select.POLLOUT)
        if not poller.poll(self._timeout * 1000):
            raise TimeoutError(f"no progress for {self._timeout:g} s")


def _words(exc: ssl.SSLError) -> str:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"the certificate of the switch is not accepted: {exc.verify_message}"
    reason = (exc.reason or str(exc)).replace("_", " ").lower()
    if "alert" in reason:
        return f"the switch does not accept our certificate: {reason}"
    if "peer did not return a certificate" in reason:
        return "the switch has no certificate: ovs-vsctl set-ssl KEY CERTIFICATE CA"
    return f"TLS failed: {reason}; see that both ends use TLS"
