"""A connection to the metadata service, with a deadline for each exchange.

The timeout of a socket is for one packet; a service that sends single bytes would occupy a thread
for ever.  Here the deadline is for the whole exchange.
"""

from __future__ import annotations

import http.client
import io
import select
import socket
import ssl
import time
from typing import Any

from attrs import frozen

MAX_BODY = 16 * 1024 * 1024
"""Maximum number of bytes of a response's body."""


@frozen(kw_only=True)
class UpstreamRequest:
    """A request to the service, without ``Host`` and ``Content-Length``."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


@frozen(kw_only=True)
class UpstreamResponse:
    """A response of the service."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    length: int
    """Length of the body; for HEAD, the declared length."""


class UpstreamConnection:
    """One connection for the requests of one instance; used by one thread at a time."""

    def __init__(
        self,
        address: tuple[str, int],
        context: ssl.SSLContext | None,
        *,
        instance: str,
        until: float,
        connecting: float,
    ) -> None:
        """Connect.

        :raises OSError: the service cannot be reached, or its certificate is not valid.
        """
        self.instance = instance
        timeout = max(0.001, min(connecting, until - time.monotonic()))
        self._raw = socket.create_connection(address, timeout=timeout)
        try:
            self._raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                self._raw = context.wrap_socket(self._raw, server_hostname=address[0])
        except BaseException:
            self._raw.close()
            raise
        self._timed = _DeadlineSocket(self._raw)
        self._http = http.client.HTTPConnection(*address)
        self._http.auto_open = 0
        self._http.sock = self._timed
        self._host = _host_header(address, 443 if context is not None else 80)
        self.idle_since = time.monotonic()

    @property
    def is_reusable(self) -> bool:
        """Whether the service has neither closed the connection nor sent unexpected data."""
        poller = select.poll()  # select() is limited to the first 1024 files
        poller.register(self._raw, select.POLLIN)
        return not poller.poll(0)

    def exchange(self, request: UpstreamRequest, until: float) -> tuple[UpstreamResponse, bool]:
        """Send a request; return the response, and whether the connection can be reused.

        :raises TimeoutError: the deadline passed.
        :raises OSError: the connection broke.
        :raises HTTPException: the response is malformed or too long.
        """
        self._timed.until = until
        connection = self._http
        connection.putrequest(
            request.method, request.target, skip_host=True, skip_accept_encoding=True
        )
        connection.putheader("Host", self._host)
        for name, value in request.headers:
            connection.putheader(name, value)
        if request.body or request.method in ("POST", "PUT", "PATCH"):
            connection.putheader("Content-Length", str(len(request.body)))
        connection.endheaders(request.body or None)
        response = connection.getresponse()
        if not 200 <= response.status < 600:
            raise http.client.HTTPException(f"an answer with status {response.status}")
        body = response.read(MAX_BODY + 1)
        if len(body) > MAX_BODY or response.length:
            raise http.client.HTTPException("an answer that is too long, or ends early")
        answer = UpstreamResponse(
            status=response.status,
            headers=tuple(response.getheaders()),
            body=body,
            length=_declared_length(response) if request.method == "HEAD" else len(body),
        )
        self.idle_since = time.monotonic()
        was_read = response.isclosed() and not response.will_close
        return answer, was_read and not _may_leave_bytes(request, response.status)

    def close(self) -> None:
        """Close the connection."""
        self._raw.close()


class _DeadlineSocket:
    """A socket for ``http.client`` whose operations share one deadline."""

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw
        self.until = 0.0

    def sendall(self, data: bytes) -> None:
        self._raw.settimeout(self._remaining())
        self._raw.sendall(data)

    def recv_into(self, buffer: Any) -> int:
        self._raw.settimeout(self._remaining())
        return self._raw.recv_into(buffer)

    def makefile(self, mode: str) -> io.BufferedReader:
        return _HeadReader(_SocketReader(self), 16 * 1024)

    def close(self) -> None:
        """Do nothing: the response may not be read yet; `UpstreamConnection` closes the socket."""

    def _remaining(self) -> float:
        remaining = self.until - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("the time for the exchange is over")
        return remaining


class _SocketReader(io.RawIOBase):
    def __init__(self, timed: _DeadlineSocket) -> None:
        self._timed = timed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._timed.recv_into(buffer)


class _HeadReader(io.BufferedReader):
    """Detects a head that ends early, which ``http.client`` takes for a complete one."""

    _started = False

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        early = not line.endswith(b"\n") and len(line) != size
        if early and (line or self._started):
            raise http.client.HTTPException("an answer that ends early")
        self._started = True
        return line


def _may_leave_bytes(request: UpstreamRequest, status: int) -> bool:
    """Return whether a defective service could leave bytes on the connection.

    It leaves the body of the request unread, or sends a body with a response that has none.
    """
    return bool(request.body) or request.method == "HEAD" or status in (204, 304)


def _declared_length(response: http.client.HTTPResponse) -> int:
    text = response.getheader("Content-Length") or ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0


def _host_header(address: tuple[str, int], default_port: int) -> str:
    host, port = address
    name = f"[{host}]" if ":" in host else host
    return name if port == default_port else f"{name}:{port}"
