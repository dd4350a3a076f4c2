"""Request buffer: bytes that a client has sent, and that were not parsed yet.

They are received without blocking until a request can be handled, so that a slow client uses no
thread.
"""

from __future__ import annotations

import re
import socket
import ssl
from enum import Enum, auto
from typing import Final

from netfw.http.request_parser import ChunkDecoder

SMALL_BODY: Final = 16 * 1024
"""Bytes of a body that is received before its client is authenticated."""
_PIECE: Final = 64 * 1024

_BEGINNING = re.compile(rb"[A-Z]{1,20}(?: [!-~]*(?: (?:H(?:T(?:T(?:P(?:/[0-9.]*\r?)?)?)?)?)?)?)?")
"""An incomplete request line."""
_END = re.compile(rb"\n\r?\n")
_DECLARED = re.compile(rb"\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*(?=\r\n)", re.IGNORECASE)
_EXPECTING = re.compile(rb"\nexpect:", re.IGNORECASE)


class ReadState(Enum):
    """How much of a request has arrived."""

    UNDER_WAY = auto()
    COMPLETE = auto()
    """It can be handled: its head has arrived, and its body if that is small or awaited; or it is
    invalid, or its body ends early."""
    GONE = auto()
    """The client closed its sending side."""


class RequestBuffer:
    """The bytes of one connection, in order; *longest* is the limit of a head."""

    def __init__(self, connection: socket.socket, longest: int) -> None:
        self._socket, self._longest = connection, longest
        self._held = bytearray()
        self._searched = 0
        self._plausible = False
        """Whether the request line has arrived and is plausible."""
        self._needed: int | None = None
        """Bytes of the head, and of a small body, once the head has arrived; or of the body."""
        self._chunks: ChunkDecoder | None = None
        """The awaited body, if it is chunked."""
        self.bytes_read = 0
        self.closed = False

    def gather(self) -> ReadState:
        """Receive without blocking; continue a TLS handshake that is under way.

        :raises OSError: the connection is lost, or the data is no TLS.
        """
        while not self._complete():
            try:
                piece = self._socket.recv(_PIECE)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return ReadState.UNDER_WAY
            if not piece:
                return ReadState.COMPLETE if self._under_way() else ReadState.GONE
            self._held += piece
        return ReadState.COMPLETE

    def head(self) -> bytes:
        """Remove and return the head of a complete request, or the invalid data in its place."""
        del self._held[: self._leading()]
        found = _END.search(self._held, 0, self._longest + 1)
        data = bytes(self._held[: found.end() if found else self._longest + 1])
        del self._held[: len(data)]
        self._reset()
        return data

    def holds(self, size: int) -> bool:
        """Return whether *size* bytes can be read without blocking."""
        return len(self._held) >= size

    def has_data(self) -> bool:
        """Return whether a request can be handled, or read on, without waiting for the socket."""
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        return self._complete()

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return len(self._held) + (0 if self._chunks is None else len(self._chunks))

    def await_body(self, size: int) -> None:
        """Gather a body of *size* bytes next."""
        self._needed = size

    def await_chunks(self, limit: int) -> None:
        """Gather a chunked body next; of one longer than *limit*, its first *limit* + 1 bytes."""
        self._chunks = ChunkDecoder(limit)

    def read(self, size: int) -> bytes:
        """Remove and return *size* bytes, or those that arrived before the end."""
        data = bytes(self._held[:size])
        del self._held[:size]
        self.bytes_read += len(data)
        self._reset()
        return data

    def read_chunks(self) -> bytes:
        """Remove and return the awaited chunked body.

        :raises ValueError: it is not in chunks, or ends early.
        """
        if self._chunks is None:
            raise ValueError("No chunks are awaited.")
        body = self._chunks.body()
        self.bytes_read += len(body)
        self._reset()
        return body

    def close(self) -> None:
        """Discard what was not read."""
        self.closed = True
        self._held.clear()
        self._reset()

    def _reset(self) -> None:
        self._searched, self._needed, self._plausible = 0, None, False
        self._chunks = None

    def _under_way(self) -> bool:
        """Return whether a request has begun whose head has arrived."""
        return self._chunks is not None or self._needed is not None

    def _leading(self) -> int:
        """Return the length of one empty line before the request, which is ignored."""
        return 2 if self._held.startswith(b"\r\n") else 0

    def _complete(self) -> bool:
        if self._chunks is not None:
            return self._chunks.decode(self._held)
        if self._needed is None:
            self._needed = self._measure()
        return self._needed is not None and len(self._held) >= self._needed

    def _measure(self) -> int | None:
        """Return how many bytes a thread needs to begin; ``None``: not known yet."""
        start = self._leading()
        found = _END.search(self._held, max(start, self._searched - 2))
        if found is None:
            hopeless = len(self._held) - start > self._longest or not self._is_plausible(start)
            self._searched = len(self._held)
            return len(self._held) if hopeless and len(self._held) > start else None
        end = found.end()
        declared = _DECLARED.findall(self._held, start, end)
        if len(declared) != 1 or _EXPECTING.search(self._held, start, end):
            return end
        body = int(declared[0])
        return end + body if body <= SMALL_BODY else end

    def _is_plausible(self, start: int) -> bool:
        """Return whether the bytes can become a request."""
        if self._plausible or not self._held.strip(b"\r\n"):
            return True
        line = self._held.find(b"\n", start)
        first = self._held[start:] if line < 0 else self._held[start:line]
        hopeful = _BEGINNING.fullmatch(first) is not None
        if line >= 0:
            hopeful = self._plausible = hopeful and first.count(b" ") == 2
        return hopeful
