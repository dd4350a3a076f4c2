"""Request parser: request line, headers and chunked bodies, strict and within bounds.

What could be read in two ways is refused.  cheroot's own reader of chunks takes a whole chunk, and
the line before it, into memory before any limit applies.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Final, Protocol
from urllib.parse import unquote_to_bytes

from attrs import frozen

from netfw.http.http_error import HttpError, malformed

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
"""Headers that a request has at most once."""

LONGEST_LINE: Final = 256
"""Limit in bytes of the line that says how long a chunk is."""

MAX_CHUNKS: Final = 16 * 1024
"""Limit of chunks of one body: each costs time, however little there is in it."""

_LINE = re.compile(rb"([A-Z]{1,20}) ([!-~]+) HTTP/([0-9])\.([0-9])\r\n")
_HOST = re.compile(rb"[A-Za-z0-9._~:%\[\]-]{0,300}")
_SLASH = re.compile(rb"(?i)%2f")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(;[^\r\n]*)?\r\n")


class Lines(Protocol):
    """The stream that headers are read from."""

    def readline(self) -> bytes: ...


def read_headers(lines: Lines) -> dict[bytes, bytes]:
    """Read headers up to the empty line; omit those whose names have underscores.

    :raises ValueError: a line is wrong; the text says how, without repeating it.
    """
    headers: dict[bytes, bytes] = {}
    while (line := lines.readline()) != b"\r\n":
        if not line.endswith(b"\r\n"):
            raise ValueError("A header does not end with CRLF.")
        name, colon, value = line[:-2].partition(b":")
        value = value.strip(b" \t")
        if not (colon and _NAME.fullmatch(name)):
            raise ValueError("A header has no name, or one that HTTP does not allow.")
        if not _VALUE.fullmatch(value):
            raise ValueError("A header has control characters.")
        if b"_" in name:
            continue
        name = name.title()
        if name in headers:
            if name in _ONCE:
                raise ValueError(f"{name.decode()} is given twice.")
            value = headers[name] + b", " + value
        headers[name] = value
    if not _LENGTH.fullmatch(headers.get(b"Content-Length", b"0")):
        raise ValueError("Content-Length is not a number of bytes.")
    if b"Content-Length" in headers and b"Transfer-Encoding" in headers:
        raise ValueError("Content-Length and Transfer-Encoding contradict each other.")
    return headers


@frozen(kw_only=True)
class Head:
    """The request line and the headers of a request."""

    method: bytes
    target: bytes
    """As the client wrote it."""
    path: bytes
    """Unquoted, but for slashes."""
    query: bytes
    version: tuple[int, int]
    headers: Mapping[bytes, bytes]
    length: int
    """Bytes of the body; 0 when it comes in chunks."""
    chunked: bool
    expects: bool
    """The client sends the body after a response 100 Continue."""
    keep_alive: bool
    """The client may send further requests on the same connection."""


def parse_head(data: bytes, longest: int) -> Head:
    """Parse the head of a request.

    :raises HttpError: *data* is none, or has more than *longest* bytes, or requests what is not
        served.
    """
    line, newline, rest = data.partition(b"\n")
    if len(data) > longest:
        raise _too_long(longest, in_line=not newline)
    matched = _LINE.fullmatch(line + newline)
    if matched is None:
        raise malformed("the request line is not like 'GET /path HTTP/1.1'")
    method, target = matched[1], matched[2]
    version = int(matched[3]), int(matched[4])
    if version not in ((1, 0), (1, 1)):
        raise HttpError(
            505, "HTTPVersionNotSupported", "only HTTP/1.1 and HTTP/1.0 are spoken here"
        )
    path, query = _split_target(method, target)
    try:
        headers = read_headers(io.BytesIO(rest))
    except ValueError as exc:
        raise malformed(str(exc)) from exc
    _check_host(headers, version)
    chunked = _is_chunked(headers, version)
    return Head(
        method=method,
        target=target,
        path=path,
        query=query,
        version=version,
        headers=headers,
        length=int(headers.get(b"Content-Length", b"0")),
        chunked=chunked,
        expects=_expects_continue(headers, version),
        keep_alive=_keeps_alive(headers, version),
    )


def _too_long(longest: int, *, in_line: bool) -> HttpError:
    text = f"the request line and the headers have more than {longest} bytes"
    if in_line:
        return HttpError(414, "HTTPRequestURITooLong", text)
    return HttpError(413, "HTTPRequestEntityTooLarge", text)


def _split_target(method: bytes, target: bytes) -> tuple[bytes, bytes]:
    """Return the path, unquoted but for slashes, and the query of a request target."""
    path, _, query = target.partition(b"?")
    whole = method == b"OPTIONS" and target == b"*"
    if not whole and (not path.startswith(b"/") or path.startswith(b"//") or b"#" in target):
        raise malformed("the request line has no path that begins with one '/'")
    path = b"%2F".join(unquote_to_bytes(part) for part in _SLASH.split(path))
    return (b"/" + path if whole else path), query


def _check_host(headers: Mapping[bytes, bytes], version: tuple[int, int]) -> None:
    host = headers.get(b"Host")
    if host is None:
        if version == (1, 1):
            raise malformed("HTTP/1.1 needs a Host header")
    elif not _HOST.fullmatch(host):
        raise malformed("Host is no name or address of a host")


def _is_chunked(headers: Mapping[bytes, bytes], version: tuple[int, int]) -> bool:
    coding = headers.get(b"Transfer-Encoding")
    if coding is None:
        return False
    if version == (1, 0):
        raise malformed("HTTP/1.0 has no Transfer-Encoding")
    if coding.lower() != b"chunked":
        raise HttpError(501, "HTTPNotImplemented", "of Transfer-Encoding, only chunked is served")
    return True


def _expects_continue(headers: Mapping[bytes, bytes], version: tuple[int, int]) -> bool:
    expected = headers.get(b"Expect", b"").lower()
    if expected not in (b"", b"100-continue"):
        raise HttpError(417, "HTTPExpectationFailed", "of Expect, only 100-continue is served")
    return bool(expected) and version == (1, 1)


def _keeps_alive(headers: Mapping[bytes, bytes], version: tuple[int, int]) -> bool:
    options = {word.strip() for word in headers.get(b"Connection", b"").lower().split(b",")}
    return b"close" not in options and (version == (1, 1) or b"keep-alive" in options)


class ChunkDecoder:
    """Decodes a chunked body as it arrives; what follows it is not decoded.

    Of a body longer than *limit*, its first *limit* + 1 bytes are decoded.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._chunks = limit, 0
        self._left: int | None = None
        """Bytes of the chunk that are missing; ``None``: its size is; 0: the line end after it."""
        self._body = bytearray()
        self._ended = False
        self._problem: ValueError | None = None

    def __len__(self) -> int:
        return len(self._body)

    def decode(self, arrived: bytearray) -> bool:
        """Move what can be decoded out of *arrived*; return whether the body needs no more."""
        if not self._ended and self._problem is None:
            try:
                self._ended = self._decode(arrived)
            except ValueError as exc:
                self._problem = exc
        return self._ended or self._problem is not None

    def body(self) -> bytes:
        """Return the body.

        :raises ValueError: it is not in chunks, or ends early; the text says which, without
            repeating anything of it.
        """
        if self._problem is not None:
            raise self._problem
        if not self._ended:
            raise ValueError("A chunk is not as long as it says.")
        return bytes(self._body)

    def _decode(self, arrived: bytearray) -> bool:
        while True:
            if self._left is None:
                if (size := self._take_size(arrived)) is None:
                    return False
                if size == 0:
                    return True
                self._left = size
            piece = arrived[: min(self._left, self._limit + 1 - len(self._body))]
            del arrived[: len(piece)]
            self._body += piece
            self._left -= len(piece)
            if len(self._body) > self._limit:
                return True
            if self._left or len(arrived) < 2:
                return False
            if arrived[:2] != b"\r\n":
                raise ValueError("A chunk is not as long as it says.")
            del arrived[:2]
            self._left = None

    def _take_size(self, arrived: bytearray) -> int | None:
        """Take the line with the size of the next chunk; ``None``: it has not arrived."""
        end = arrived.find(b"\n", 0, LONGEST_LINE)
        if end < 0 and len(arrived) < LONGEST_LINE:
            return None
        matched = _CHUNK_SIZE.fullmatch(arrived[: end + 1])
        if matched is None:
            raise ValueError("A chunk does not say how long it is.")
        del arrived[: end + 1]
        size = int(matched[1], 16)
        self._chunks += size > 0
        if self._chunks > MAX_CHUNKS:
            raise ValueError(f"The body has more than {MAX_CHUNKS} chunks.")
        return size
