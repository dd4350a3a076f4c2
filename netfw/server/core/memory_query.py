"""Lists that are worked out instead of stored: filtered, sorted and paged in memory.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from netfw.drivers.query import Body, Query
from netfw.errors import NotFound


def apply_query(bodies: Iterable[Body], query: Query, identity: str = "id") -> tuple[Body, ...]:
    """Those of *bodies* that *query* asks for, in its order.

    :raises NotFound: none of them has the id of the marker.
    """
    found = [body for body in bodies if _passes(body, query.filters)]
    for name, up in reversed((*query.sort, (identity, True))):
        found.sort(key=lambda body, by=name: _key(body.get(by)), reverse=not up)  # type: ignore[misc]
    if query.marker is not None:
        ids = [body.get(identity) for body in found]
        if str(query.marker) not in ids:
            raise NotFound(f"there is no {query.marker} to go on from")
        at = ids.index(str(query.marker))
        found = found[:at] if query.backwards else found[at + 1 :]
    if query.limit is None:
        return tuple(found)
    return tuple(found[-query.limit :] if query.backwards else found[: query.limit])


def _passes(body: Body, filters: Mapping[str, Iterable[Any]]) -> bool:
    return all(
        any(_text(body.get(name)) == _text(value) for value in values)
        for name, values in filters.items()
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _key(value: object) -> tuple[bool, bool, Any]:
    """Nothing comes first, then numbers, then text."""
    number = isinstance(value, int)
    return value is not None, not number, value if number else str(value)
