"""Numbers of policies and conjunctions, allocated in an overlay before they are recorded.  Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from netfw.plan.overlay import Overlay

T = TypeVar("T", bound=Hashable)


class IdAllocator(Generic[T]):
    """Numbers from 1, each for one thing."""

    def __init__(self) -> None:
        self.number: dict[T, int] = {}
        self.thing: dict[int, T] = {}
        self.holes: set[int] = set()
        """Free numbers below the highest that is taken."""
        self.highest = 0

    def give(self, thing: T, number: int) -> None:
        """Record that *thing* has *number*."""
        self.number[thing], self.thing[number] = number, thing
        self.holes |= set(range(self.highest + 1, number))
        self.holes.discard(number)
        self.highest = max(self.highest, number)

    def free(self, thing: T) -> None:
        """Release the number of *thing*."""
        number = self.number.pop(thing)
        del self.thing[number]
        self.holes.add(number)
        while self.highest in self.holes:
            self.holes.remove(self.highest)
            self.highest -= 1


class IdAllocatorOverlay(Generic[T]):
    """Numbers as they will be.

    A thing keeps its number, a new one gets the lowest free number.  A number that is released here
    is free for others only after ``commit``.
    """

    def __init__(self, base: IdAllocator[T]) -> None:
        self._base = base
        self._number: Overlay[T, int] = Overlay(base.number)
        self._thing: Overlay[int, T] = Overlay(base.thing)
        self._holes: list[int] | None = None
        self._highest = base.highest

    def __iter__(self) -> Iterator[T]:
        return iter(self._number)

    def get(self, thing: T) -> int | None:
        """Return the number of *thing*, if it has one."""
        return self._number.get(thing)

    def thing(self, number: int) -> T | None:
        """Return what has *number*."""
        return self._thing.get(number)

    def take(self, thing: T) -> tuple[int, bool]:
        """Return the number of *thing*, and whether it is new."""
        number = self._number.get(thing)
        if number is not None:
            return number, False
        before = self._base.number.get(thing)
        number = self._lowest() if before is None else before
        self._number[thing], self._thing[number] = number, thing
        return number, before is None

    def free(self, thing: T) -> None:
        """Release the number of *thing*, if it has one."""
        number = self._number.get(thing)
        if number is not None:
            del self._number[thing], self._thing[number]

    def commit(self) -> None:
        """Apply the changes to the base."""
        for thing in self._number.removed:
            if thing in self._base.number:
                self._base.free(thing)
        for thing, number in self._number.changed.items():
            self._base.give(thing, number)

    def _lowest(self) -> int:
        """Return the lowest number that was free before this overlay and still is."""
        if self._holes is None:
            self._holes = sorted(self._base.holes, reverse=True)
        if self._holes:
            return self._holes.pop()
        self._highest += 1
        return self._highest
