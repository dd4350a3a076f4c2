"""Reading the headers of a request strictly, so that nobody reads them otherwise than a proxy did.

cheroot's own reader takes the last of two headers of one name, lets a folded line replace what
stands before it, and tells ``X_Roles`` from ``X-Roles`` no more once they are variables.  Each of
them would let a client past a proxy that removes what it says of itself.
"""

from __future__ import annotations

import re
from typing import Protocol

_NAME = re.compile(rb"[!#$%&'*+.^`|~0-9A-Za-z_-]+")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_ONCE = frozenset(
    {
        b"Authorization",
        b"Content-Length",
        b"Content-Type",
        b"Host",
        b"If-Match",
        b"Transfer-Encoding",
        b"X-Auth-Token",
        b"X-Identity-Status",
        b"X-Project-Id",
        b"X-Roles",
        b"X-Service-Token",
        b"X-Tenant-Id",
        b"X-User-Id",
    }
)
"""What must not be given twice."""


class Lines(Protocol):
    """What headers are read from."""

    def readline(self) -> bytes: ...


def read_headers(lines: Lines, found: dict[bytes, bytes] | None = None) -> dict[bytes, bytes]:
    """Read headers up to the empty line into *found*; names with underscores are left out.

    :raises ValueError: a line is wrong; the text says how, without repeating it.
    """
    found = {} if found is None else found
    while (line := lines.readline()) != b"\r\n":
        if not line.endswith(b"\r\n"):
            raise ValueError("A header does not end as HTTP wants it.")
        name, colon, value = line[:-2].partition(b":")
        value = value.strip(b" \t")
        if not (colon and _NAME.fullmatch(name)):
            raise ValueError("A header has no name, or one that HTTP does not allow.")
        if not _VALUE.fullmatch(value):
            raise ValueError("A header has control characters.")
        if b"_" in name:
            continue
        name = name.title()
        if name in found:
            if name in _ONCE:
                raise ValueError(f"{name.decode()} is given twice.")
            value = found[name] + b", " + value
        found[name] = value
    if not _LENGTH.fullmatch(found.get(b"Content-Length", b"0")):
        raise ValueError("Content-Length is not a number of bytes.")
    if b"Content-Length" in found and b"Transfer-Encoding" in found:
        raise ValueError("Content-Length and Transfer-Encoding contradict each other.")
    return found
