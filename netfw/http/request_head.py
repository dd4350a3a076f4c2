"""The head of a request: its first line and its headers, understood in one way or not at all."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Protocol
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


_LINE = re.compile(rb"([A-Z]{1,20}) ([!-~]+) HTTP/([0-9])\.([0-9])\r\n")
_HOST = re.compile(rb"[A-Za-z0-9._~:%\[\]-]{0,300}")
_SLASH = re.compile(rb"(?i)%2f")


@frozen(kw_only=True)
class Head:
    """What a request says before its body."""

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
    """The client sends the body when it is told to go on."""
    stays: bool
    """The client may have further requests on the same connection."""


def parse_head(data: bytes, longest: int) -> Head:
    """The head that *data* is.

    :raises Refusal: it is none, or has more than *longest* bytes, or asks for what is not served.
    """
    line, newline, rest = data.partition(b"\n")
    if len(data) > longest:
        raise _too_long(longest, in_line=not newline)
    found = _LINE.fullmatch(line + newline)
    if found is None:
        raise malformed("the request line is not like 'GET /path HTTP/1.1'")
    method, target = found[1], found[2]
    version = int(found[3]), int(found[4])
    if version not in ((1, 0), (1, 1)):
        raise HttpError(
            505, "HTTPVersionNotSupported", "only HTTP/1.1 and HTTP/1.0 are spoken here"
        )
    path, query = _parted(method, target)
    try:
        headers = read_headers(io.BytesIO(rest))
    except ValueError as exc:
        raise malformed(str(exc)) from exc
    _check_host(headers, version)
    chunked = _chunked(headers, version)
    return Head(
        method=method,
        target=target,
        path=path,
        query=query,
        version=version,
        headers=headers,
        length=int(headers.get(b"Content-Length", b"0")),
        chunked=chunked,
        expects=_expects(headers, version),
        stays=_stays(headers, version),
    )


def _too_long(longest: int, *, in_line: bool) -> HttpError:
    text = f"the request line and the headers have more than {longest} bytes"
    if in_line:
        return HttpError(414, "HTTPRequestURITooLong", text)
    return HttpError(413, "HTTPRequestEntityTooLarge", text)


def _parted(method: bytes, target: bytes) -> tuple[bytes, bytes]:
    """Path and query of a request's target."""
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


def _chunked(headers: Mapping[bytes, bytes], version: tuple[int, int]) -> bool:
    coding = headers.get(b"Transfer-Encoding")
    if coding is None:
        return False
    if version == (1, 0):
        raise malformed("HTTP/1.0 has no Transfer-Encoding")
    if coding.lower() != b"chunked":
        raise HttpError(501, "HTTPNotImplemented", "of Transfer-Encoding, only chunked is served")
    return True


def _expects(headers: Mapping[bytes, bytes], version: tuple[int, int]) -> bool:
    expected = headers.get(b"Expect", b"").lower()
    if expected not in (b"", b"100-continue"):
        raise HttpError(417, "HTTPExpectationFailed", "of Expect, only 100-continue is served")
    return bool(expected) and version == (1, 1)


def _stays(headers: Mapping[bytes, bytes], version: tuple[int, int]) -> bool:
    said = {word.strip() for word in headers.get(b"Connection", b"").lower().split(b",")}
    return b"close" not in said and (version == (1, 1) or b"keep-alive" in said)
