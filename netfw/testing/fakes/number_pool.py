"""A pool of numbers in memory: which are taken, and by which open transaction."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Generic, TypeVar

from attrs import define, field

from netfw.errors import Conflict

K = TypeVar("K", bound=Hashable)
Span = tuple[int, int]


class IntervalSet:
    """A set of numbers stored as intervals, so that it finds a free number without counting."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __iter__(self) -> Iterator[int]:
        for first, last in zip(self._starts, self._ends, strict=True):
            yield from range(first, last + 1)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._starts, number) - 1
        return at >= 0 and number <= self._ends[at]

    def add(self, number: int) -> None:
        """Add *number*, which is absent."""
        at = bisect_right(self._starts, number)
        self._starts.insert(at, number)
        self._ends.insert(at, number)
        self._join(at)
        self._join(at - 1)

    def discard(self, number: int) -> None:
        """Remove *number* if it is present."""
        at = bisect_right(self._starts, number) - 1
        if at < 0 or number > self._ends[at]:
            return
        first, last = self._starts[at], self._ends[at]
        runs = [(a, b) for a, b in ((first, number - 1), (number + 1, last)) if a <= b]
        self._starts[at : at + 1] = [a for a, _ in runs]
        self._ends[at : at + 1] = [b for _, b in runs]

    def first_free(self, first: int, last: int) -> int | None:
        """Return the lowest number from *first* to *last* that is absent."""
        at = bisect_right(self._starts, first) - 1
        free = self._ends[at] + 1 if at >= 0 and first <= self._ends[at] else first
        return free if free <= last else None

    def _join(self, at: int) -> None:
        if 0 <= at < len(self._starts) - 1 and self._ends[at] + 1 == self._starts[at + 1]:
            self._ends[at] = self._ends.pop(at + 1)
            del self._starts[at + 1]


@define
class NumberPool(Generic[K]):
    """The taken numbers of each *K*, with transactions that are isolated from each other."""

    intervals: dict[K, IntervalSet] = field(factory=dict)
    """Numbers that are unavailable: taken by a committed or by an open transaction."""
    open: dict[tuple[K, int], Entries[K]] = field(factory=dict)
    """The open transaction that takes or releases a number."""
    lock: RLock = field(factory=RLock, repr=False)

    def taken(self, key: K) -> IntervalSet:
        """Return the taken numbers of *key*."""
        return self.intervals.setdefault(key, IntervalSet())

    @contextmanager
    def transaction(self) -> Iterator[Entries[K]]:
        """Open a transaction: commit when the block ends, roll back when it raises."""
        entries = Entries(self)
        try:
            yield entries
        except BaseException:
            entries.end(undo=entries.took)
            raise
        entries.end(undo=entries.gave)


@define(eq=False)
class Entries(Generic[K]):
    """One transaction."""

    pool: NumberPool[K]
    took: set[tuple[K, int]] = field(factory=set)
    gave: set[tuple[K, int]] = field(factory=set)
    calls: int = 0
    """The number of requests in this transaction."""

    def acquire(self, key: K, number: int) -> bool:
        """Take *number*; return false if it is taken.

        :raises Conflict: another transaction is taking or releasing it.
        """
        with self.pool.lock:
            self.calls += 1
            return self._take(key, number)

    def acquire_any(self, key: K, spans: Sequence[Span]) -> int | None:
        """Take a free number of *spans*.

        :raises Conflict: the only ones are those that other transactions take or release.
        """
        with self.pool.lock:
            self.calls += 1
            for first, last in spans:
                free = self.pool.taken(key).first_free(first, last)
                again = (n for k, n in self.gave if k == key and first <= n <= last)
                number = free if free is not None else min(again, default=None)
                if number is not None:
                    self._take(key, number)
                    return number
            if any(k == key and _within(n, spans) for k, n in self._of_others()):
                raise Conflict("what is left is being taken or given back by another request")
            return None

    def release(self, key: K, number: int) -> None:
        """Free *number*, for others when the transaction ends."""
        with self.pool.lock:
            self.calls += 1
            entry = key, number
            if entry in self.took:
                self.took.discard(entry)
                del self.pool.open[entry]
                self.pool.taken(key).discard(number)
            elif entry not in self.pool.open and number in self.pool.taken(key):
                self.gave.add(entry)
                self.pool.open[entry] = self

    def end(self, undo: Iterable[tuple[K, int]]) -> None:
        """End it; the numbers of *undo* are free from then on."""
        with self.pool.lock:
            for key, number in undo:
                self.pool.taken(key).discard(number)
            for entry in self.took | self.gave:
                del self.pool.open[entry]

    def _take(self, key: K, number: int) -> bool:
        entry = key, number
        if entry in self.gave:
            self.gave.discard(entry)
            del self.pool.open[entry]
            return True
        if self.pool.open.get(entry, self) is not self:
            raise Conflict("another request is taking it, or giving it back")
        if number in self.pool.taken(key):
            return False
        self.pool.taken(key).add(number)
        self.pool.open[entry] = self
        self.took.add(entry)
        return True

    def _of_others(self) -> Iterator[tuple[K, int]]:
        return (entry for entry, holder in self.pool.open.items() if holder is not self)


def _within(number: int, spans: Iterable[Span]) -> bool:
    return any(first <= number <= last for first, last in spans)
