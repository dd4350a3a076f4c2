"""Link: a connection to the metadata service, on which one exchange ends within its time.

The time-out of a socket is for one packet; a service that sends a byte now and then would keep a
thread for ever.  Here it is for the whole exchange.
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

LONGEST = 16 * 1024 * 1024
"""Bytes of an answer."""


@frozen(kw_only=True)
class UpstreamRequest:
    """A request, as it goes out; without ``Host`` and the length of the body."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


@frozen(kw_only=True)
class UpstreamResponse:
    """What the service said."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    length: int
    """Of the body; that of an answer to HEAD is told without one."""


class UpstreamConnection:
    """One connection; used by one thread at a time."""

    def __init__(
        self,
        place: tuple[str, int],
        context: ssl.SSLContext | None,
        *,
        until: float,
        connecting: float,
    ) -> None:
        """:raises OSError: the service cannot be reached, or is not who it should be."""
        patience = max(0.001, min(connecting, until - time.monotonic()))
        self._raw = socket.create_connection(place, timeout=patience)
        try:
            self._raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                self._raw = context.wrap_socket(self._raw, server_hostname=place[0])
        except BaseException:
            self._raw.close()
            raise
        self._timed = _Timed(self._raw)
        self._http = http.client.HTTPConnection(*place)
        self._http.auto_open = 0
        self._http.sock = self._timed
        self._host = _host(place, 443 if context is not None else 80)
        self.idle_since = time.monotonic()

    @property
    def is_quiet(self) -> bool:
        """Whether it can be used again: the other side has neither hung up nor said anything."""
        looking = select.poll()  # not select(), which knows the first 1024 files alone
        looking.register(self._raw, select.POLLIN)
        return not looking.poll(0)

    def exchange(self, asking: UpstreamRequest, until: float) -> tuple[UpstreamResponse, bool]:
        """The answer, and whether the link can be used for another one.

        :raises TimeoutError: it did not come in time.
        :raises OSError: the connection broke.
        :raises HTTPException: what came is no answer, or too long.
        """
        self._timed.until = until
        connection = self._http
        connection.putrequest(
            asking.method, asking.target, skip_host=True, skip_accept_encoding=True
        )
        connection.putheader("Host", self._host)
        for name, value in asking.headers:
            connection.putheader(name, value)
        if asking.body or asking.method in ("POST", "PUT", "PATCH"):
            connection.putheader("Content-Length", str(len(asking.body)))
        connection.endheaders(asking.body or None)
        response = connection.getresponse()
        if not 200 <= response.status < 600:
            raise http.client.HTTPException(f"an answer with status {response.status}")
        body = response.read(LONGEST + 1)
        if len(body) > LONGEST or response.length:
            raise http.client.HTTPException("an answer that is too long, or ends early")
        answered = UpstreamResponse(
            status=response.status,
            headers=tuple(response.getheaders()),
            body=body,
            length=_declared(response) if asking.method == "HEAD" else len(body),
        )
        self.idle_since = time.monotonic()
        return answered, response.isclosed() and not response.will_close

    def close(self) -> None:
        """End it."""
        self._raw.close()


class _Timed:
    """A socket, as far as ``http.client`` uses one, all of whose waiting ends at one moment."""

    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw
        self.until = 0.0

    def sendall(self, data: bytes) -> None:
        self._raw.settimeout(self._left())
        self._raw.sendall(data)

    def recv_into(self, buffer: Any) -> int:
        self._raw.settimeout(self._left())
        return self._raw.recv_into(buffer)

    def makefile(self, mode: str) -> io.BufferedReader:
        return _Lines(_Reading(self), 16 * 1024)

    def close(self) -> None:
        """The link ends the connection: an answer may still have to be read."""

    def _left(self) -> float:
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time for the exchange is over")
        return left


class _Reading(io.RawIOBase):
    def __init__(self, timed: _Timed) -> None:
        self._timed = timed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._timed.recv_into(buffer)


class _Lines(io.BufferedReader):
    """Tells a head that ends early from one that is over, which ``http.client`` does not."""

    _begun = False

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        early = not line.endswith(b"\n") and len(line) != size
        if early and (line or self._begun):
            raise http.client.HTTPException("an answer that ends early")
        self._begun = True
        return line


def _declared(response: http.client.HTTPResponse) -> int:
    text = response.getheader("Content-Length") or ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0


def _host(place: tuple[str, int], usual: int) -> str:
    host, port = place
    name = f"[{host}]" if ":" in host else host
    return name if port == usual else f"{name}:{port}"
