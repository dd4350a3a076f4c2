"""Pairs and numbers that can be drafted before they are noted.  Pure.

A draft costs what it changes, however much there is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Set
from typing import Generic, TypeVar

L = TypeVar("L", bound=Hashable)
R = TypeVar("R", bound=Hashable)
T = TypeVar("T", bound=Hashable)


class MultiMap(Generic[L, R]):
    """Pairs, found by either side."""

    def __init__(self) -> None:
        self._rights: dict[L, set[R]] = defaultdict(set)
        self._lefts: dict[R, set[L]] = defaultdict(set)

    def __iter__(self) -> Iterator[tuple[L, R]]:
        return ((left, right) for left, rights in self._rights.items() for right in rights)

    def __contains__(self, pair: tuple[L, R]) -> bool:
        return pair[1] in self.rights(pair[0])

    def __bool__(self) -> bool:
        return bool(self._rights)

    def rights(self, left: L) -> Set[R]:
        return self._rights.get(left, frozenset())

    def lefts(self, right: R) -> Set[L]:
        return self._lefts.get(right, frozenset())

    def add(self, left: L, right: R) -> None:
        self._rights[left].add(right)
        self._lefts[right].add(left)

    def remove(self, left: L, right: R) -> None:
        if (left, right) in self:
            _discard(self._rights, left, right)
            _discard(self._lefts, right, left)


class MultiMapOverlay(Generic[L, R]):
    """A relation as it will be, without touching it."""

    def __init__(self, base: MultiMap[L, R]) -> None:
        self._base = base
        self._added: MultiMap[L, R] = MultiMap()
        self._removed: MultiMap[L, R] = MultiMap()

    def __contains__(self, pair: tuple[L, R]) -> bool:
        return pair in self._added or (pair in self._base and pair not in self._removed)

    def __iter__(self) -> Iterator[tuple[L, R]]:
        yield from (pair for pair in self._base if pair not in self._removed)
        yield from self._added

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    def rights(self, left: L) -> Set[R]:
        base, added, removed = (
            relation.rights(left) for relation in (self._base, self._added, self._removed)
        )
        return (base - removed) | added if added or removed else base

    def lefts(self, right: R) -> Set[L]:
        base, added, removed = (
            relation.lefts(right) for relation in (self._base, self._added, self._removed)
        )
        return (base - removed) | added if added or removed else base

    def has(self, left: L) -> bool:
        """Whether *left* is in any pair; costs the same however many there are."""
        kept = len(self._base.rights(left)) - len(self._removed.rights(left))
        return kept > 0 or bool(self._added.rights(left))

    def add(self, left: L, right: R) -> None:
        self._removed.remove(left, right)
        if (left, right) not in self._base:
            self._added.add(left, right)

    def remove(self, left: L, right: R) -> None:
        self._added.remove(left, right)
        if (left, right) in self._base:
            self._removed.add(left, right)

    def commit(self) -> None:
        """Note it."""
        for pair in self._removed:
            self._base.remove(*pair)
        for pair in self._added:
            self._base.add(*pair)


class IdAllocator(Generic[T]):
    """Numbers from 1, each for one thing."""

    def __init__(self) -> None:
        self.number: dict[T, int] = {}
        self.thing: dict[int, T] = {}
        self.holes: set[int] = set()
        """Free numbers below the highest that is taken."""
        self.highest = 0

    def give(self, thing: T, number: int) -> None:
        self.number[thing], self.thing[number] = number, thing
        self.holes |= set(range(self.highest + 1, number))
        self.holes.discard(number)
        self.highest = max(self.highest, number)

    def free(self, thing: T) -> None:
        number = self.number.pop(thing)
        del self.thing[number]
        self.holes.add(number)
        while self.highest in self.holes:
            self.holes.remove(self.highest)
            self.highest -= 1


class NumbersDraft(Generic[T]):
    """Numbers as they will be.  A thing keeps its number; a new one gets the lowest free one."""

    def __init__(self, base: IdAllocator[T]) -> None:
        self._base = base
        self._given: dict[T, int] = {}
        self._things: dict[int, T] = {}
        self._freed: dict[int, T] = {}
        self._holes: list[int] | None = None
        self._highest = base.highest

    def __iter__(self) -> Iterator[T]:
        yield from (thing for thing in self._base.number if self.get(thing) is not None)
        yield from self._given

    def get(self, thing: T) -> int | None:
        number = self._given.get(thing) or self._base.number.get(thing)
        return None if number in self._freed and thing not in self._given else number

    def thing(self, number: int) -> T | None:
        if number in self._things:
            return self._things[number]
        return None if number in self._freed else self._base.thing.get(number)

    def take(self, thing: T) -> tuple[int, bool]:
        """Its number, and whether that is new."""
        number = self.get(thing)
        if number is not None:
            return number, False
        before = self._base.number.get(thing)
        if before is not None:
            del self._freed[before]
            return before, False
        number = self._lowest()
        self._given[thing], self._things[number] = number, thing
        return number, True

    def _lowest(self) -> int:
        """A number that nobody has, nor had before this draft."""
        if self._holes is None:
            self._holes = sorted(self._base.holes, reverse=True)
        if self._holes:
            return self._holes.pop()
        self._highest += 1
        return self._highest

    def free(self, thing: T) -> None:
        number = self._given.pop(thing, None)
        if number is not None:
            del self._things[number]
        elif thing in self._base.number:
            self._freed[self._base.number[thing]] = thing

    def commit(self) -> None:
        """Note it."""
        for thing in self._freed.values():
            self._base.free(thing)
        for thing, number in self._given.items():
            self._base.give(thing, number)


def _discard(index: dict[L, set[R]], key: L, value: R) -> None:
    index[key].discard(value)
    if not index[key]:
        del index[key]
