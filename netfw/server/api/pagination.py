"""Links from one page of a list to its neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import urlencode

from netfw.drivers.query import Body, Query
from netfw.server.api.query_params import Parameters

_PAGE = frozenset({"marker", "page_reverse", "limit"})


def page_links(
    url: str, given: Parameters, query: Query, rows: Sequence[Body]
) -> list[dict[str, str]]:
    """Where the next and the previous page are, as far as there may be any.

    From an empty page behind the last one leads a way back to it.
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
    full = query.limit is not None and len(rows) >= query.limit
    begun = query.marker is not None
    if begun if query.backwards else full:
        yield "next", rows[-1], False
    if full if query.backwards else begun:
        yield "previous", rows[0], True


def _query(given: Parameters, query: Query, row: Body, back: bool) -> str:
    kept = [pair for pair in given if pair[0] not in _PAGE]
    page = [("limit", str(query.limit))]
    if "id" in row:
        page.append(("marker", str(row["id"])))
    return urlencode([*kept, *page, *([("page_reverse", "True")] if back else [])])
