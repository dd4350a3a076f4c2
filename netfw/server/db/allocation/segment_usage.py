"""Free and used segment ids within ranges, for many ranges in two statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import field, frozen
from sqlalchemy import Connection, Select, literal, select, union_all

from netfw.drivers.server.type_driver import Range
from netfw.model.resource import Kind
from netfw.server.db.allocation.allocation_stores import pool_name
from netfw.server.db.allocation.free_ranges import key
from netfw.server.db.schema.resource_tables import STORED
from netfw.server.db.schema.tables import FREE_RANGES

SEGMENTS: Final = STORED[Kind.SEGMENT].table
NETWORKS: Final = STORED[Kind.NETWORK].table
MAX_SHOWN: Final = 1000
"""Free ids of a range that are listed, and used ones: a range may have 2**32."""
AT_ONCE: Final = 50
"""Ranges of one statement: databases limit the parts of a union."""


@frozen
class RangeUsage:
    """The lowest free ids of a range, and the lowest used ones with the projects of networks."""

    free: list[int] = field(factory=list)
    used: dict[int, str] = field(factory=dict)


def find_usage(connection: Connection, ranges: Sequence[Range]) -> tuple[RangeUsage, ...]:
    """Return the usage of each of *ranges*."""
    found = tuple(RangeUsage() for _ in ranges)
    for start in range(0, len(ranges), AT_ONCE):
        part = list(enumerate(ranges[start : start + AT_ONCE], start))
        for at, first, last in _union(connection, [_select_free(*each) for each in part]):
            _add_free(found[at].free, ranges[at], int(first, 16), int(last, 16))
        for at, number, project in _union(connection, [_select_used(*each) for each in part]):
            found[at].used[number] = project
    return found


def find_used(connection: Connection, wanted: Range) -> Mapping[int, str]:
    """Return some used ids of *wanted*, with the projects of their networks."""
    rows = connection.execute(_select_used(0, wanted).limit(1))
    return {number: project for _, number, project in rows}


def _union(connection: Connection, selects: Sequence[Select[Any]]) -> Sequence[Any]:
    limited = [select(each.limit(MAX_SHOWN).subquery()) for each in selects]
    return connection.execute(union_all(*limited)).all()


def _select_free(at: int, wanted: Range) -> Select[Any]:
    free = FREE_RANGES.c
    return (
        select(literal(at).label("at"), free.first, free.last)
        .where(free.pool == pool_name(wanted.pool))
        .where(free.last >= key(wanted.first), free.first <= key(wanted.last))
        .order_by(free.first)
    )


def _select_used(at: int, wanted: Range) -> Select[Any]:
    segments = SEGMENTS.c
    return (
        select(literal(at).label("at"), segments.segmentation_id, NETWORKS.c.project_id)
        .join(NETWORKS, NETWORKS.c.id == segments.network_id)
        .where(segments.network_type == str(wanted.pool.type))
        .where(segments.physical_network == wanted.pool.physical_network)
        .where(segments.segmentation_id.between(wanted.first, wanted.last))
        .order_by(segments.segmentation_id)
    )


def _add_free(free: list[int], wanted: Range, first: int, last: int) -> None:
    """Add the ids of *wanted* between *first* and *last*, as far as they are listed."""
    low, high = max(first, wanted.first), min(last, wanted.last)
    free += range(low, min(high, low + MAX_SHOWN - len(free) - 1) + 1)
