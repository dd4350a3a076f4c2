"""Requests of guests to a metadata proxy, and the requests that the agent receives.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import frozen

from netfw.drivers.metadata import IDENTIFYING, MetadataKey
from netfw.drivers.values.keys import NetworkKey, RouterKey
from netfw.model.values.address import IpAddress

FORGED = "6.6.6.6"
"""The forged address of a guest."""

_END = b"Host: 169.254.169.254\r\nConnection: close\r\n"


def request(
    *headers: bytes, line: bytes = b"GET /latest HTTP/1.1", body: bytes = b"", end: bytes = _END
) -> bytes:
    """Return a request with these lines before those that every client sends."""
    lines = b"".join(header + b"\r\n" for header in headers)
    return line + b"\r\n" + lines + end + b"\r\n" + body


HONEST = request()

_FORGED = FORGED.encode()
_NAMES = tuple(name.encode() for name in IDENTIFYING)


def _spelt() -> Iterator[tuple[str, bytes]]:
    for name in IDENTIFYING:
        plain = name.encode()
        yield name, request(plain + b": " + _FORGED)
        yield f"{name}, shouted", request(plain.upper() + b":" + _FORGED)
        yield f"{name}, with underscores", request(plain.replace(b"-", b"_") + b": " + _FORGED)
        yield f"{name}, mixed", request(plain.title().replace(b"-", b"_", 1) + b": " + _FORGED)


def _twice(first: bytes) -> bytes:
    return first + request(b"X-Forwarded-For: " + _FORGED)


def _shaped() -> Iterator[tuple[str, bytes]]:
    forged = b"X-Forwarded-For: " + _FORGED
    yield "doubled", request(forged, forged, b"X-Neutron-Network-ID: a", b"X-Neutron-Router-ID: b")
    yield "a list", request(b"X-Forwarded-For: " + _FORGED + b", 7.7.7.7")
    yield "folded", request(b"X-Forwarded-For:\r\n " + _FORGED)
    yield "folded away", request(b"X-Other: a\r\n " + forged)
    yield "a folded name", request(b"X-Forwarded-For\r\n : " + _FORGED)
    yield "a space before the colon", request(b"X-Forwarded-For : " + _FORGED)
    yield "a tab before the colon", request(b"X-Forwarded-For\t: " + _FORGED)
    yield "a space before the name", request(line=b"GET / HTTP/1.1\r\n " + forged)
    yield "bare line feeds", request(b"X-Other: a\n" + forged)
    yield "bare carriage returns", request(b"X-Other: a\r" + forged)
    yield "a NUL in the name", request(b"X-Forwarded-For\0: " + _FORGED)
    yield "a NUL in a value", request(b"X-Other: a\0\n" + forged)
    yield (
        "to be dropped on the way",
        request(
            b"Connection: close, X-Forwarded-For, X-Neutron-Network-ID, X-Neutron-Router-ID", forged
        ),
    )
    yield "HTTP/1.0", request(forged, line=b"GET /latest HTTP/1.0")
    yield "an absolute target", request(forged, line=b"GET http://169.254.169.254/latest HTTP/1.1")
    yield "another host's target", request(forged, line=b"GET http://evil/latest HTTP/1.1")
    yield "a header in the target", request(line=b"GET /%0d%0aX-Forwarded-For:%206.6.6.6 HTTP/1.1")
    yield "a line in the target", request(line=b"GET /\rX-Forwarded-For:6.6.6.6 HTTP/1.1")
    yield "no version", b"GET /latest\r\n" + forged + b"\r\n\r\n"
    yield "TRACE", request(forged, line=b"TRACE / HTTP/1.1")
    yield "CONNECT", request(forged, line=b"CONNECT 169.254.169.254:80 HTTP/1.1")
    yield "an upgrade", request(forged, b"Connection: Upgrade", b"Upgrade: h2c")
    yield "HTTP/2 from the start", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    yield "a huge header", request(b"X-Other: " + b"a" * 100_000, forged)
    yield "many headers", request(*(b"X-%d: a" % n for n in range(5000)), forged)


def _smuggled() -> Iterator[tuple[str, bytes]]:
    """Return a second request in the body of the first, for parsers of other lengths."""
    hidden = request(b"X-Forwarded-For: " + _FORGED, line=b"GET /hidden HTTP/1.1")
    stay = b"Host: 169.254.169.254\r\n"
    post = b"POST /latest HTTP/1.1"
    size = b"Content-Length: %d" % len(hidden)
    chunked = b"Transfer-Encoding: chunked"
    yield "pipelined", _twice(request(b"X-Forwarded-For: 1.1.1.1", end=stay))
    yield "in a body", request(size, line=post, body=hidden)
    yield "in the body of a GET", request(size, body=hidden)
    for name, headers in {
        "chunks and a length": (chunked, size),
        "a length and chunks": (size, chunked),
        "two lengths": (b"Content-Length: 5", size),
        "a list of lengths": (b"Content-Length: 5, %d" % len(hidden),),
        "a signed length": (b"Content-Length: +5",),
        "unknown chunks": (b"Transfer-Encoding: xchunked", size),
        "chunks in capitals": (b"Transfer-Encoding: CHUNKED", size),
        "chunks after a tab": (b"Transfer-Encoding:\tchunked", size),
        "chunks with an underscore": (b"Transfer_Encoding: chunked", size),
    }.items():
        yield name, request(*headers, line=post, body=b"0\r\n\r\n" + hidden, end=stay)
    yield "a trailer", request(
        chunked, b"Trailer: X-Forwarded-For", line=post,
        body=b"1\r\na\r\n0\r\nX-Forwarded-For: " + _FORGED + b"\r\n\r\n",
    )  # fmt: skip


SPELT: Mapping[str, bytes] = dict(_spelt())
SHAPED: Mapping[str, bytes] = dict(_shaped())
SMUGGLED: Mapping[str, bytes] = dict(_smuggled())
MALFORMED: Mapping[str, bytes] = {**SPELT, **SHAPED, **SMUGGLED}
"""Requests by defect.  A proxy forwards or refuses them."""


@frozen
class ReceivedRequest:
    """A request as the metadata agent received it, parsed leniently."""

    line: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""

    def values(self, name: str) -> list[str]:
        """Return the values of headers *name*, in any spelling that a server could accept."""
        return [value for header, value in self.headers if _plain(header) == name]


def _plain(name: str) -> str:
    return name.strip(" \t\0").lower().replace("_", "-")


def header_mismatches(
    received: ReceivedRequest, key: MetadataKey, source: IpAddress
) -> Iterator[str]:
    """Yield the differences of *received* from the headers that the proxy of *key* should send."""
    true = {"x-forwarded-for": str(source), **_id(key)}
    for name in IDENTIFYING:
        wanted = [true[name]] if name in true else []
        if (values := received.values(name)) != wanted:
            yield f"{name} is {values} instead of {wanted}"
    for tokens in received.values("connection"):
        for token in map(_plain, tokens.split(",")):
            if token in IDENTIFYING:
                yield f"{token} is listed in Connection, so the next proxy drops it"


def _id(key: MetadataKey) -> dict[str, str]:
    match key:
        case NetworkKey(network):
            return {"x-neutron-network-id": str(network)}
        case RouterKey(router):
            return {"x-neutron-router-id": str(router)}
