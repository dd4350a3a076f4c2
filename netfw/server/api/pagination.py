"""Pagination links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import urlencode

from netfw.drivers.server.query import Body, Query
from netfw.server.api.query_params import Parameters

_PAGE = frozenset({"marker", "page_reverse", "limit"})


def page_links(
    url: str, given: Parameters, query: Query, rows: Sequence[Body], visible: Sequence[Body]
) -> list[dict[str, str]]:
    """Return the links to the next and the previous page, where such a page may exist.

    The links name *visible* rows; the id of a hidden one only if policy hides all *rows*.  An
    empty page behind the last one has a link back to it.
    """
    return [
        {"rel": rel, "href": f"{url}?{_query(given, query, row, back)}"}
        for rel, row, back in _neighbours(query, rows, visible or rows)
    ]


def _neighbours(
    query: Query, rows: Sequence[Body], named: Sequence[Body]
) -> Iterator[tuple[str, Body, bool]]:
    if not rows:
        if query.marker is not None:
            yield ("next", {}, False) if query.backwards else ("previous", {}, True)
        return
    if "id" not in rows[0]:
        return  # without an id there is no marker
    full = query.limit is not None and len(rows) >= query.limit
    has_marker = query.marker is not None
    if has_marker if query.backwards else full:
        yield "next", named[-1], False
    if full if query.backwards else has_marker:
        yield "previous", named[0], True


def _query(given: Parameters, query: Query, row: Body, back: bool) -> str:
    kept = [pair for pair in given if pair[0] not in _PAGE]
    page = [("limit", str(query.limit))]
    if "id" in row:
        page.append(("marker", str(row["id"])))
    return urlencode([*kept, *page, *([("page_reverse", "True")] if back else [])])
