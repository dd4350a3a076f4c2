"""A metadata agent that parses leniently and records its requests."""

from __future__ import annotations

import errno
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

from netfw.testing.conformance.metadata.requests import ReceivedRequest

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nmetadata"

_LINE_END = re.compile(rb"\r\n|\n|\r|\0")
_TIMEOUT = 20.0
"""How long to wait for the first request of a connection, in seconds."""
_SILENCE = 0.2
"""How long to wait for what follows, in seconds."""
_PAUSE = 0.01
"""How long to wait for a free descriptor, in seconds."""


def read_request(head: bytes, body: bytes = b"") -> ReceivedRequest:
    """Parse a request as a lenient server would.

    Any line with a colon in it is a header, whatever ends the line, and however it begins.
    """
    line, *rest = _LINE_END.split(head)
    pairs = (line.decode("latin-1").partition(":") for line in rest if b":" in line)
    return ReceivedRequest(
        line.decode("latin-1"), tuple((name, value.strip()) for name, _, value in pairs), body
    )


class RecordingAgent:
    """Serves HTTP on a unix socket: records each request, and answers ``metadata``.

    The length of a body is that of its headers, or of its chunks if any header indicates chunks;
    trailers count as headers.  The next request follows.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connections = 0
        """Number of connections so far."""
        self.shortages = 0
        """Number of attempts to accept a connection without a free descriptor."""
        self._lock = threading.Lock()
        self._arrived: list[ReceivedRequest] = []
        self._closed = threading.Event()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        path.chmod(0o666)  # proxies may run as any user
        self._socket.listen(128)
        threading.Thread(target=self._accept, name="recording-agent", daemon=True).start()

    def take(self) -> list[ReceivedRequest]:
        """Return what has arrived since this was last called."""
        with self._lock:
            arrived, self._arrived = self._arrived, []
            return arrived

    def close(self) -> None:
        """Close the socket."""
        self._closed.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError as exc:
                if exc.errno != errno.EMFILE or self._closed.wait(_PAUSE):
                    return
                self.shortages += 1  # a suite takes away the files of this process for a while
                continue
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(_TIMEOUT)

            def read(size: int) -> bytes:
                more = connection.recv(size)
                connection.settimeout(_SILENCE)
                return more

            try:
                for received in requests_in(read):
                    with self._lock:
                        self._arrived.append(received)
                    connection.sendall(ANSWER)
            except OSError:
                return  # the proxy closed the connection, or is silent


def requests_in(read: Callable[[int], bytes]) -> Iterator[ReceivedRequest]:
    """Yield the requests that *read* returns, until it returns nothing more."""
    reader = _Reader(read)
    while (received := reader.request()) is not None:
        yield received


class _Reader:
    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._receive = read
        self._read = b""

    def request(self) -> ReceivedRequest | None:
        head = self._until(b"\r\n\r\n")
        if not head:
            return None
        plain = read_request(head)
        if any("chunked" in value.lower() for value in plain.values("transfer-encoding")):
            body, trailer = self._chunks()
            return read_request(head + b"\r\n" + trailer, body)
        lengths = [int(text) for text in plain.values("content-length") if text.isdecimal()]
        return read_request(head, self._exactly(lengths[-1] if lengths else 0))

    def _chunks(self) -> tuple[bytes, bytes]:
        body = b""
        while size := int(self._until(b"\r\n").partition(b";")[0] or b"0", 16):
            body += self._exactly(size)
            self._until(b"\r\n")
        trailer = b""
        while line := self._until(b"\r\n"):
            trailer += line + b"\r\n"
        return body, trailer

    def _until(self, end: bytes) -> bytes:
        while end not in self._read:
            if not self._more():
                break
        line, _, self._read = self._read.partition(end)
        return line

    def _exactly(self, size: int) -> bytes:
        while len(self._read) < size and self._more():
            pass
        data, self._read = self._read[:size], self._read[size:]
        return data

    def _more(self) -> bool:
        more = self._receive(65536)
        self._read += more
        return bool(more)
