"""Reading a body that comes in chunks, within bounds.

cheroot's own reader takes a whole chunk, and the line before it, into memory before anybody can
say that it is too much.
"""

from __future__ import annotations

import re
from typing import IO, Final

LONGEST_LINE: Final = 256
"""Bytes of the line that says how long a chunk is; nobody needs more."""

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(;[^\r\n]*)?\r\n")


def read_chunks(stream: IO[bytes], limit: int) -> bytes:
    """The body; of one that is longer than *limit*, its first *limit* + 1 bytes.

    What follows it is not read.

    :raises ValueError: it is not in chunks, or ends early; the text says which, without repeating
        anything of it.
    """
    found = bytearray()
    while size := _size(stream):
        wanted = min(size, limit + 1 - len(found))
        some = stream.read(wanted)
        found += some
        if len(found) > limit:
            break
        if len(some) < wanted or stream.read(2) != b"\r\n":
            raise ValueError("A chunk is not as long as it says.")
    return bytes(found)


def _size(stream: IO[bytes]) -> int:
    found = _SIZE.fullmatch(stream.readline(LONGEST_LINE))
    if found is None:
        raise ValueError("A chunk does not say how long it is.")
    return int(found[1], 16)
