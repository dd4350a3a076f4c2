"""SegmentRangeDocuments: network segment ranges in the database, and what they offer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID, uuid5

from netfw.drivers.server.type_driver import Pool, Range
from netfw.model.segment import NetworkType
from netfw.server.db.allocation.intervals import Interval, divide
from netfw.server.db.database import Transaction
from netfw.server.db.resources.vendor_resources import VendorResources

NAME: Final = "network_segment_range"
DEFAULTS: Final = UUID("6e1c1a0e-6a5c-5a6e-9b8e-0c7b6f1f2d57")
"""Namespace of the ids of default ranges: all servers give a range the same id."""
ALL_PROJECTS: Final = ""
"""Project of shared ranges."""

Document = Mapping[str, Any]


class SegmentRangeDocuments:
    """A ``RangeSource`` over stored network segment ranges.

    The caller of ``offer`` has locked the pools of the type: ranges change only under that lock.
    """

    def offer(self, tx: Transaction, type: NetworkType, configured: Sequence[Range]) -> list[Range]:
        """Store the default ranges; return them and the shared ones, without those of projects."""
        stored = find_of_type(tx, type)
        self._store_defaults(tx, [each for each in stored if each["default"]], configured)
        others = [each for each in stored if not each["default"]]
        shared = [*configured, *(range_of(each) for each in others if each["shared"])]
        return without(shared, [range_of(each) for each in others if not each["shared"]])

    def find_own(self, tx: Transaction, type: NetworkType, project: str) -> tuple[Range, ...]:
        """Return the ranges of *project*, whose pools keep their definitions."""
        found = find_of_type(tx, type, project)
        pools = {range_of(each).pool for each in found}
        if not pools:
            return ()
        for pool in sorted(pools, key=lambda each: each.physical_network or ""):
            tx.allocations.share(pool)
        ranges = (range_of(each) for each in find_of_type(tx, type, project))
        return tuple(sorted(ranges, key=lambda each: each.first))

    def _store_defaults(
        self, tx: Transaction, stored: Iterable[Document], configured: Sequence[Range]
    ) -> None:
        rows = VendorResources(tx.connection, NAME)
        wanted = {str(default_id(each)): each for each in configured}
        present = {each["id"] for each in stored}
        for id in sorted(present - wanted.keys()):
            rows.delete(UUID(id))
        new = [default_document(id, wanted[id]) for id in sorted(wanted.keys() - present)]
        if new:
            rows.insert(*new)


def find_of_type(
    tx: Transaction, type: NetworkType, project: str | None = None
) -> list[dict[str, Any]]:
    """Return the stored ranges of *type*; with *project*: its own."""
    found = VendorResources(tx.connection, NAME).find({}, project=project)
    return [each for each in found if each["network_type"] == type]


def range_of(document: Document) -> Range:
    """Return the numbers of a stored range."""
    pool = Pool(NetworkType(document["network_type"]), document["physical_network"] or None)
    return Range(pool, document["minimum"], document["maximum"])


def without(ranges: Iterable[Range], removed: Iterable[Range]) -> list[Range]:
    """Return the numbers of *ranges* that *removed* lacks.  Pure."""
    spans: dict[Pool, list[Interval]] = {}
    cut: dict[Pool, list[Interval]] = {}
    for target, values in ((spans, ranges), (cut, removed)):
        for each in values:
            target.setdefault(each.pool, []).append(Interval(each.first, each.last))
    return [
        Range(pool, part.span.first, part.span.last)
        for pool in spans
        for part in divide(spans[pool], cut.get(pool, ()))
        if not part.offered
    ]


def default_id(configured: Range) -> UUID:
    """Return the id of a default range, the same for all servers."""
    pool = configured.pool
    text = f"{pool.type}/{pool.physical_network or ''}/{configured.first}/{configured.last}"
    return uuid5(DEFAULTS, text)


def default_document(id: str, configured: Range) -> dict[str, Any]:
    """Return a new default range as it is stored."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "id": id,
        "name": "",
        "description": "",
        "project_id": ALL_PROJECTS,
        "tenant_id": ALL_PROJECTS,
        "default": True,
        "shared": True,
        "network_type": str(configured.pool.type),
        "physical_network": configured.pool.physical_network or "",
        "minimum": configured.first,
        "maximum": configured.last,
        "tags": [],
        "revision_number": 1,
        "created_at": now,
        "updated_at": now,
    }
