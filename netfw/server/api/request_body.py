"""Bodies of requests: read within bounds, and understood only as far as JSON is unambiguous."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import IO, Any

from attrs import frozen

from netfw.http.http_error import HttpError, malformed
from netfw.model.text_validation import quote

PLAIN_BRACKETS = 24
"""A body with fewer cannot be nested too deeply; nobody has to look."""


@frozen(kw_only=True)
class RequestLimits:
    """How large requests may be."""

    body: int = 4 * 1024 * 1024
    """Bytes."""
    depth: int = 16
    values: int = 300_000
    """Brackets, commas, texts and escapes of a body: what it takes in memory follows from them."""
    query: int = 65_536
    """Bytes of a query string."""
    parameters: int = 2_000
    page: int | None = None
    """Rows of one answer; ``None``: as many as there are."""


_TEXTS = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


class _Ambiguous(ValueError):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Ambiguous(f"{quote(twice)} is there twice in one object")
    return found


def _no_constant(word: str) -> None:
    raise _Ambiguous(f"{word} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)


def read(environ: Mapping[str, Any], limit: int) -> bytes:
    """The body of a request, never more than *limit* bytes of it.

    :raises Refusal: it is larger, or ends early.
    """
    stream: IO[bytes] = environ["wsgi.input"]
    length = check_length(environ, limit)
    if length is None:
        if "chunked" not in environ.get("HTTP_TRANSFER_ENCODING", "").lower():
            return b""
        return _within(stream.read(limit + 1), limit)
    data = stream.read(length)
    if len(data) < length:
        raise malformed("the body ends before its Content-Length")
    return data


def check_length(environ: Mapping[str, Any], limit: int) -> int | None:
    """The length that the request declares, if it declares one.

    :raises Refusal: it is more than *limit*, or no number.
    """
    declared = environ.get("CONTENT_LENGTH") or ""
    if not declared:
        return None
    if not declared.isascii() or not declared.isdecimal() or len(declared) > 18:
        raise malformed("Content-Length is not a number")
    if int(declared) > limit:
        raise _too_large(limit)
    return int(declared)


def _within(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise _too_large(limit)
    return data


def _too_large(limit: int) -> HttpError:
    return HttpError(
        413,
        "HTTPRequestEntityTooLarge",
        f"the body has more than {limit} bytes",
        {"Connection": "close"},
    )


def check_type(content_type: str) -> None:
    """Refuse bodies that say they are something else than JSON; to say nothing is fine."""
    kind, _, parameters = content_type.lower().partition(";")
    charset = parameters.strip().removeprefix("charset=").strip('" ')
    if kind.strip() not in ("", "application/json") or charset not in ("", "utf-8", "utf8"):
        raise HttpError(
            415,
            "HTTPUnsupportedMediaType",
            f"the body is {quote(content_type)}; send application/json",
        )


def document(data: bytes, bounds: RequestLimits) -> dict[str, Any]:
    """The object that *data* says.

    :raises Refusal: it is no JSON, or ambiguous, or nested without sense, or no object.
    """
    if not data:
        return {}
    _bounded(data, bounds)
    try:
        found = _DECODER.decode(data.decode("utf-8"))
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
    if not isinstance(found, dict):
        raise malformed("the body is no object")
    return found


def _bounded(data: bytes, bounds: RequestLimits) -> None:
    """Refuse what would take much memory, before it does."""
    brackets = data.count(b"[") + data.count(b"{")
    if brackets < PLAIN_BRACKETS and len(data) < 65_536:
        return
    parts = brackets + data.count(b",") + data.count(b'"') // 2 + data.count(b"\\")
    if parts > bounds.values:
        raise malformed(f"the body has more than {bounds.values} values")
    deepest = _depth(data)
    if deepest > bounds.depth:
        raise malformed(f"the body is nested more than {bounds.depth} deep")


def _depth(data: bytes) -> int:
    """How deep brackets are nested, outside texts."""
    depth = deepest = 0
    for byte in _TEXTS.sub(b"", data).translate(None, _NO_BRACKETS):
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return deepest
