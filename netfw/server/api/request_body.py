"""Request bodies: read within limits, and parsed as strict JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import IO, Any

from attrs import frozen

from netfw.http.http_error import HttpError, malformed
from netfw.model.values.text_validation import quote

MAX_BULK = 10_000
"""Resources that one request can create."""
PLAIN_BRACKETS = 24
"""A body with fewer brackets cannot exceed the depth limit, so the depth is not computed."""


@frozen(kw_only=True)
class RequestLimits:
    """Limits on the size of requests and pages."""

    body: int = 4 * 1024 * 1024
    """Bytes."""
    depth: int = 16
    values: int = 300_000
    """Brackets, commas, strings and escapes of a body, which bound its size in memory."""
    query: int = 65_536
    """Bytes of a query string."""
    parameters: int = 1_000
    """Parameters of a query string; more ids than a request line of 32 KiB has."""
    tags: int = 100
    """Tags of one filter."""
    page: int | None = None
    """Rows of one response; ``None``: unlimited."""


_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.?)*+"?', re.DOTALL)
"""Strings, the last of which may have no end: else each of its quotes would be tried as a start."""
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


class _Ambiguous(ValueError):
    pass


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        last = {name: at for at, (name, _) in enumerate(pairs)}
        twice = next(name for at, (name, _) in enumerate(pairs) if last[name] != at)
        raise _Ambiguous(f"{quote(twice)} is there twice in one object")
    return members


def _no_constant(word: str) -> None:
    raise _Ambiguous(f"{word} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_no_constant)


def read_object(environ: Mapping[str, Any], limits: RequestLimits) -> dict[str, Any]:
    """Read the body of a request and parse it as a JSON object; empty without a body.

    :raises HttpError: the body is not one unambiguous JSON object within the limits.
    """
    _check_type(environ.get("CONTENT_TYPE") or "")
    return parse_object(_read(environ, limits.body), limits)


def _read(environ: Mapping[str, Any], limit: int) -> bytes:
    """Return the body of a request, at most *limit* bytes.

    :raises HttpError: the body is larger, or ends early.
    """
    stream: IO[bytes] = environ["wsgi.input"]
    length = check_length(environ, limit)
    if length is None:
        if "chunked" not in environ.get("HTTP_TRANSFER_ENCODING", "").lower():
            return b""
        data = stream.read(limit + 1)
        if len(data) > limit:
            raise _too_large(limit)
        return data
    data = stream.read(length)
    if len(data) < length:
        raise malformed("the body ends before its Content-Length")
    return data


def check_length(environ: Mapping[str, Any], limit: int) -> int | None:
    """Return the declared length of the body, or ``None``.

    :raises HttpError: the length exceeds *limit*, or is not a number.
    """
    declared = environ.get("CONTENT_LENGTH") or ""
    if not declared:
        return None
    if not declared.isascii() or not declared.isdecimal() or len(declared) > 18:
        raise malformed("Content-Length is not a number")
    if int(declared) > limit:
        raise _too_large(limit)
    return int(declared)


def _too_large(limit: int) -> HttpError:
    return HttpError(
        413,
        "HTTPRequestEntityTooLarge",
        f"the body has more than {limit} bytes",
        {"Connection": "close"},
    )


def _check_type(content_type: str) -> None:
    """Raise for a content type other than JSON; a missing one is accepted."""
    kind, _, parameters = content_type.lower().partition(";")
    charset = parameters.strip().removeprefix("charset=").strip('" ')
    if kind.strip() not in ("", "application/json") or charset not in ("", "utf-8", "utf8"):
        raise HttpError(
            415,
            "HTTPUnsupportedMediaType",
            f"the body is {quote(content_type)}; send application/json",
        )


def parse_object(data: bytes, limits: RequestLimits) -> dict[str, Any]:
    """Parse *data* as a JSON object.

    :raises HttpError: *data* is not JSON, has a key twice, exceeds the limits, or is no object.
    """
    if not data:
        return {}
    _check_limits(data, limits)
    try:
        document = _DECODER.decode(data.decode("utf-8"))
    except UnicodeDecodeError as exc:
        raise malformed(f"the body is not UTF-8 at byte {exc.start}") from exc
    except _Ambiguous as exc:
        raise malformed(f"the body is ambiguous: {exc}") from exc
    except json.JSONDecodeError as exc:
        raise malformed(
            f"the body is no JSON: {exc.msg} at line {exc.lineno}, column {exc.colno}"
        ) from exc
    except ValueError as exc:
        raise malformed("the body has a number without end") from exc
    if not isinstance(document, dict):
        raise malformed("the body is no object")
    return document


def _check_limits(data: bytes, limits: RequestLimits) -> None:
    """Raise for a body that would take too much memory, before it is parsed."""
    brackets = data.count(b"[") + data.count(b"{")
    if brackets < PLAIN_BRACKETS and len(data) < 65_536:
        return
    parts = brackets + data.count(b",") + data.count(b'"') // 2 + data.count(b"\\")
    if parts > limits.values:
        raise malformed(f"the body has more than {limits.values} values")
    deepest = _depth(data)
    if deepest > limits.depth:
        raise malformed(f"the body is nested more than {limits.depth} deep")


def _depth(data: bytes) -> int:
    """Return the nesting depth of the brackets outside strings."""
    depth = deepest = 0
    for byte in _STRINGS.sub(b"", data).translate(None, _NO_BRACKETS):
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return deepest
