"""Reading a body that comes in chunks, within bounds.

cheroot's own reader takes a whole chunk, and the line before it, into memory before anybody can
say that it is too much.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

LONGEST_LINE: Final = 256
"""Bytes of the line that says how long a chunk is; nobody needs more."""

MOST_CHUNKS: Final = 16 * 1024
"""Of one body: each costs time, however little there is in it."""

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(;[^\r\n]*)?\r\n")


class Stream(Protocol):
    """What chunks are read from."""

    def read(self, size: int, /) -> bytes: ...

    def readline(self, size: int, /) -> bytes: ...


def read_chunks(stream: Stream, limit: int) -> bytes:
    """The body; of one that is longer than *limit*, its first *limit* + 1 bytes.

    What follows it is not read.

    :raises ValueError: it is not in chunks, or ends early; the text says which, without repeating
        anything of it.
    """
    found = bytearray()
    count = 0
    while size := _size(stream):
        count += 1
        if count > MOST_CHUNKS:
            raise ValueError(f"The body has more than {MOST_CHUNKS} chunks.")
        wanted = min(size, limit + 1 - len(found))
        some = stream.read(wanted)
        found += some
        if len(found) > limit:
            break
        if len(some) < wanted or stream.read(2) != b"\r\n":
            raise ValueError("A chunk is not as long as it says.")
    return bytes(found)


def _size(stream: Stream) -> int:
    found = _SIZE.fullmatch(stream.readline(LONGEST_LINE))
    if found is None:
        raise ValueError("A chunk does not say how long it is.")
    return int(found[1], 16)
