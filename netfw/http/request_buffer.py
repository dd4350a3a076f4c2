"""What a client has sent and nobody has read yet.

It is taken from the socket without waiting until a request can be begun, so that a client that
sends slowly holds no thread; only what is left of a large body is waited for.
"""

from __future__ import annotations

import re
import socket
import ssl
from enum import Enum, auto
from typing import Final

SMALL_BODY: Final = 16 * 1024
"""Bytes of a body that are waited for without a thread."""
_PIECE: Final = 64 * 1024

_BEGINNING = re.compile(rb"[A-Z]{1,20}(?: [!-~]*(?: (?:H(?:T(?:T(?:P(?:/[0-9.]*\r?)?)?)?)?)?)?)?")
"""What the first line of a request can look like before it is there in full."""
_END = re.compile(rb"\n\r?\n")
_DECLARED = re.compile(rb"\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*(?=\r\n)", re.IGNORECASE)
_EXPECTING = re.compile(rb"\nexpect:", re.IGNORECASE)


class ReadState(Enum):
    """How far a request has come."""

    UNDER_WAY = auto()
    COMPLETE = auto()
    """It can be begun: its head is there, and its body if that is small; or it is none."""
    GONE = auto()
    """The client sends no more."""


class RequestBuffer:
    """The bytes of one connection, in the order they came; *longest* is that of a head."""

    def __init__(self, connection: socket.socket, longest: int) -> None:
        self._socket, self._longest = connection, longest
        self._held = bytearray()
        self._searched = 0
        self._plausible = False
        """The first line is there, and looks like that of a request."""
        self._needed: int | None = None
        """Bytes of the head, and of a small body, once the head is there."""
        self.bytes_read = 0
        self.closed = False

    def gather(self) -> ReadState:
        """Take what there is, without waiting; a handshake of TLS goes on if one is under way.

        :raises OSError: the connection is broken, or what comes is no TLS.
        """
        while not self._complete():
            try:
                piece = self._socket.recv(_PIECE)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return ReadState.UNDER_WAY
            if not piece:
                return ReadState.COMPLETE if self._held and self._needed else ReadState.GONE
            self._held += piece
        return ReadState.COMPLETE

    def head(self) -> bytes:
        """The head of a request that is complete, or what stands in place of one."""
        del self._held[: self._leading()]
        found = _END.search(self._held, 0, self._longest + 1)
        data = bytes(self._held[: found.end() if found else self._longest + 1])
        del self._held[: len(data)]
        self._renew()
        return data

    def holds(self, size: int) -> bool:
        """Whether *size* bytes can be read without waiting."""
        return len(self._held) >= size

    def has_data(self) -> bool:
        """Whether a request can be begun, or looked for, without waiting for the socket."""
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        return self._complete()

    def read(self, size: int) -> bytes:
        """*size* bytes, or as many as come before the end.

        :raises OSError: the connection is broken, or nothing came for too long.
        """
        while len(self._held) < size and self._more():
            pass
        return self._taken(size)

    def readline(self, size: int) -> bytes:
        """A line with its end, or its first *size* bytes, or what comes before the end.

        :raises OSError: the connection is broken, or nothing came for too long.
        """
        searched = 0
        while (end := self._held.find(b"\n", searched, size)) < 0:
            searched = len(self._held)
            if searched >= size or not self._more():
                return self._taken(size)
        return self._taken(end + 1)

    def close(self) -> None:
        """Forget what nobody has read."""
        self.closed = True
        self._held.clear()
        self._renew()

    def _renew(self) -> None:
        self._searched, self._needed, self._plausible = 0, None, False

    def _more(self) -> bool:
        piece = self._socket.recv(_PIECE)
        self._held += piece
        return bool(piece)

    def _taken(self, size: int) -> bytes:
        data = bytes(self._held[:size])
        del self._held[:size]
        self.bytes_read += len(data)
        return data

    def _leading(self) -> int:
        """An empty line before a request is overlooked, but no second one."""
        return 2 if self._held.startswith(b"\r\n") else 0

    def _complete(self) -> bool:
        if self._needed is None:
            self._needed = self._measured()
        return self._needed is not None and len(self._held) >= self._needed

    def _measured(self) -> int | None:
        """How many bytes a thread will need to begin; ``None``: nobody knows yet."""
        start = self._leading()
        found = _END.search(self._held, max(start, self._searched - 2))
        if found is None:
            hopeless = len(self._held) - start > self._longest or not self._hopeful(start)
            self._searched = len(self._held)
            return len(self._held) if hopeless and len(self._held) > start else None
        end = found.end()
        declared = _DECLARED.findall(self._held, start, end)
        if len(declared) != 1 or _EXPECTING.search(self._held, start, end):
            return end
        body = int(declared[0])
        return end + body if body <= SMALL_BODY else end

    def _hopeful(self, start: int) -> bool:
        """Whether this can become a request."""
        if self._plausible or not self._held.strip(b"\r\n"):
            return True
        line = self._held.find(b"\n", start)
        first = self._held[start:] if line < 0 else self._held[start:line]
        hopeful = _BEGINNING.fullmatch(first) is not None
        if line >= 0:
            hopeful = self._plausible = hopeful and first.count(b" ") == 2
        return hopeful
