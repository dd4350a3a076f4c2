"""Pagination: links, and pages of those rows that a rule selects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

from attrs import evolve

from netfw.drivers.server.query import Body, Query
from netfw.errors import NotFound
from netfw.server.api.query_params import Parameters

_PAGE = frozenset({"marker", "page_reverse", "limit"})
AT_ONCE: Final = 500
"""Rows that are read at once to fill a page."""

Find = Callable[[Query], Sequence[Body]]
Select = Callable[[Sequence[Body]], Sequence[Body]]


def find_selected(find: Find, select: Select, query: Query) -> Sequence[Body]:
    """Return the page of *query* of those rows that *select* returns.

    The page is filled from further rows, which are read some at a time, so that memory does not
    grow with their number.  Rows without an id have no further pages.
    """
    rows, size = find(query), query.limit
    found = select(rows)
    if query.limit is None:
        return found
    while len(found) < query.limit and size is not None and len(rows) >= size:
        size, last = max(query.limit, AT_ONCE), rows[-1:]
        rows = _find_beyond(find, evolve(query, limit=size), rows)
        if rows[-1:] == last:
            break  # the plugin has no pages
        found = [*select(rows), *found] if query.backwards else [*found, *select(rows)]
    return found[-query.limit :] if query.backwards else found[: query.limit]


def _find_beyond(find: Find, query: Query, rows: Sequence[Body]) -> Sequence[Body]:
    """Return the rows that follow *rows*; those that were deleted meanwhile are no markers."""
    for row in rows if query.backwards else reversed(rows):
        if "id" not in row:
            break
        try:
            return find(evolve(query, marker=UUID(str(row["id"]))))
        except NotFound:
            continue
    return ()


def page_links(
    url: str, given: Parameters, query: Query, rows: Sequence[Body]
) -> list[dict[str, str]]:
    """Return the links to the next and the previous page, where such a page may exist.

    The links name some of *rows*, which the requester sees.  An empty page behind the last one has
    a link back to it.
    """
    return [
        {"rel": rel, "href": f"{url}?{_query(given, query, row, back)}"}
        for rel, row, back in _neighbours(query, rows)
    ]


def _neighbours(query: Query, rows: Sequence[Body]) -> Iterator[tuple[str, Body, bool]]:
    if not rows:
        if query.marker is not None:
            yield ("next", {}, False) if query.backwards else ("previous", {}, True)
        return
    if "id" not in rows[0]:
        return  # without an id there is no marker
    full = query.limit is not None and len(rows) >= query.limit
    has_marker = query.marker is not None
    if has_marker if query.backwards else full:
        yield "next", rows[-1], False
    if full if query.backwards else has_marker:
        yield "previous", rows[0], True


def _query(given: Parameters, query: Query, row: Body, back: bool) -> str:
    kept = [pair for pair in given if pair[0] not in _PAGE]
    page = [("limit", str(query.limit))]
    if "id" in row:
        page.append(("marker", str(row["id"])))
    return urlencode([*kept, *page, *([("page_reverse", "True")] if back else [])])
