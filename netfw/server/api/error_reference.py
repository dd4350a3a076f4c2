"""Generate the reference of error types from the declarations."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from netfw.errors import RequestError
from netfw.errors.registry import error_classes
from netfw.http.http_error import HTTP_TYPES
from netfw.server.api.error_responses import status_of

Row = tuple[str, int, str]
"""Type, status and cause."""

_HEAD = ("| type | status | cause |", "| --- | --- | --- |")


def error_types() -> Mapping[str, tuple[Row, ...]]:
    """Return the rows of every declared type, by what they refuse."""
    ordered = sorted(refusals(), key=lambda each: (each.__module__, each.api_type))
    tables = {
        _summary(module): tuple(_row(each) for each in classes)
        for module, classes in groupby(ordered, key=lambda each: each.__module__)
    }
    http = tuple((word, status, cause) for word, (status, cause) in HTTP_TYPES.items())
    return {**tables, "Refusals of a request before its resource is reached.": http}


def refusals() -> list[type[RequestError]]:
    """Return the classes of errors that are the requester's."""
    found = [each for each in error_classes().values() if issubclass(each, RequestError)]
    return [each for each in found if each is not RequestError]


def render_error_types() -> str:
    """Render all types as Markdown, a table for each area."""
    lines: list[str] = []
    for heading, rows in error_types().items():
        lines += ["", f"## {heading.rstrip('.')}", "", *_HEAD, *_cells(rows)]
    return "\n".join(lines).lstrip("\n") + "\n"


def _cells(rows: Iterable[Row]) -> Iterator[str]:
    for word, status, cause in rows:
        yield f"| `{word}` | {status} | {cause.replace('``', '`')} |"


def _row(kind: type[RequestError]) -> Row:
    status = status_of(kind)
    assert status is not None, f"{kind.__name__} has no status"
    return kind.api_type, status, _first_line(kind.__doc__)


def _summary(module: str) -> str:
    name = "Refusals of every area." if module == "netfw.errors" else sys.modules[module].__doc__
    return _first_line(name)


def _first_line(docstring: str | None) -> str:
    return (docstring or "").partition("\n")[0]
