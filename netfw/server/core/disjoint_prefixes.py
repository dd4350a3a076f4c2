"""Prefixes that must not overlap.  Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from netfw.model.values.address import IpNetwork


class DisjointPrefixes:
    """Prefixes of one IP version that do not overlap, each with the name of its owner.

    Of prefixes that overlap, the largest is kept.  A prefix costs the same for any number of
    others, but for the room that it takes in a list.
    """

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._entries: list[tuple[int, IpNetwork, str]] = []
        """Last address, prefix and owner, in the order of the first addresses."""

    def find_overlap(self, prefix: IpNetwork) -> tuple[IpNetwork, str] | None:
        """Return a prefix that overlaps with *prefix*, and its owner."""
        first, last = _bounds(prefix)
        at = bisect_right(self._firsts, first)
        for index in range(max(at - 1, 0), min(at + 1, len(self._entries))):
            end, other, owner = self._entries[index]
            if self._firsts[index] <= last and first <= end:
                return other, owner
        return None

    def add(self, prefix: IpNetwork, owner: str) -> None:
        """Add a prefix, unless one is there that contains it; replace those that it contains."""
        first, last = _bounds(prefix)
        at = bisect_right(self._firsts, first)
        if at and self._entries[at - 1][0] >= last:
            return
        within = slice(bisect_left(self._firsts, first), bisect_right(self._firsts, last))
        self._firsts[within] = [first]
        self._entries[within] = [(last, prefix, owner)]


def _bounds(prefix: IpNetwork) -> tuple[int, int]:
    return int(prefix.network_address), int(prefix.broadcast_address)
