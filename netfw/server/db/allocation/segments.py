"""The numbers of segments: which are taken, in the transaction of the caller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from netfw.drivers.type_driver import Pool, Range
from netfw.model.segment import NetworkType
from netfw.server.db.allocation.free_ranges import Ranges
from netfw.server.db.allocation.intervals import Interval

EVERYTHING: Final = Interval(0, 2**32 - 1)


class SegmentIdStore:
    """An ``AllocationStore`` whose pools are free ranges."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges

    def define(self, type: NetworkType, ranges: Iterable[Range]) -> None:
        """Have the pools of *type* offer *ranges*, and no others.  What is taken stays so."""
        offers: dict[str, list[Interval]] = {
            name: [] for name in self._ranges.pools(f"segment/{type}/")
        }
        for each in ranges:
            offers.setdefault(_name(each.pool), []).append(Interval(each.first, each.last))
        for name in sorted(offers):  # all processes lock them in one order
            self._ranges.define(name, EVERYTHING, offers[name])

    def acquire(self, pool: Pool, number: int) -> bool:
        """Take *number*, inside or outside any range; false when it is taken."""
        name = _name(pool)
        if self._ranges.acquire(name, number):
            return True
        if self._ranges.known(name):
            return False
        self._ranges.define(name, EVERYTHING, ())
        return self._ranges.acquire(name, number)

    def acquire_any(self, pool: Pool) -> int | None:
        """Take any free number of the pool's ranges; ``None`` when there is none."""
        taken = self._ranges.acquire_any(_name(pool))
        return taken[0] if taken else None

    def release(self, pool: Pool, number: int) -> None:
        """Free *number*.  What is free already stays so."""
        self._ranges.release(_name(pool), number)


def _name(pool: Pool) -> str:
    return f"segment/{pool.type}/{pool.physical_network or ''}"
