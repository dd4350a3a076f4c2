"""Copy-on-write overlays: a mapping and a two-way multimap as they will be after a change.  Pure.

An overlay costs what it changes, however much its base holds.  The base stays as it is until
``commit``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, MutableMapping, Set
from typing import Any, Generic, TypeVar, overload

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")
L = TypeVar("L", bound=Hashable)
R = TypeVar("R", bound=Hashable)


class Overlay(MutableMapping[K, V]):
    """A mapping over *base* that keeps its changes apart."""

    def __init__(self, base: MutableMapping[K, V]) -> None:
        self.base = base
        self.changed: dict[K, V] = {}
        """Keys that were set, whether the base has them or not."""
        self.removed: dict[K, None] = {}
        """Keys that were removed, whether the base has them or not."""

    def __getitem__(self, key: K) -> V:
        if key in self.changed:
            return self.changed[key]
        if key in self.removed:
            raise KeyError(key)
        return self.base[key]

    @overload
    def get(self, key: K, default: None = None, /) -> V | None: ...
    @overload
    def get(self, key: K, default: V | T, /) -> V | T: ...
    def get(self, key: K, default: Any = None, /) -> Any:
        if key in self.changed:
            return self.changed[key]
        return default if key in self.removed else self.base.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self.changed or (key not in self.removed and key in self.base)

    def __iter__(self) -> Iterator[K]:
        for key in self.base:
            if key not in self.changed and key not in self.removed:
                yield key
        yield from self.changed

    def __len__(self) -> int:
        hidden = sum(key in self.base for keys in (self.changed, self.removed) for key in keys)
        return len(self.base) - hidden + len(self.changed)

    def __setitem__(self, key: K, value: V) -> None:
        self.changed[key] = value
        self.removed.pop(key, None)

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self.discard(key)

    def discard(self, key: K) -> None:
        """Remove *key*, whether it is there or not."""
        self.changed.pop(key, None)
        self.removed[key] = None

    def commit(self) -> None:
        """Apply the changes to the base."""
        for key in self.removed:
            self.base.pop(key, None)
        self.base.update(self.changed)
        self.changed, self.removed = {}, {}


class MultiMap(Generic[L, R]):
    """Pairs of a left and a right side, found by either."""

    def __init__(self) -> None:
        self._rights: dict[L, set[R]] = defaultdict(set)
        self._lefts: dict[R, set[L]] = defaultdict(set)

    def __iter__(self) -> Iterator[tuple[L, R]]:
        return ((left, right) for left, rights in self._rights.items() for right in rights)

    def __contains__(self, pair: tuple[L, R]) -> bool:
        return pair[1] in self._rights.get(pair[0], ())

    def __bool__(self) -> bool:
        return bool(self._rights)

    def rights(self, left: L) -> Set[R]:
        """Return the right sides of *left*."""
        return self._rights.get(left, frozenset())

    def lefts(self, right: R) -> Set[L]:
        """Return the left sides of *right*."""
        return self._lefts.get(right, frozenset())

    def has(self, left: L) -> bool:
        """Return whether *left* is in any pair; costs the same however many there are."""
        return left in self._rights

    def add(self, left: L, right: R) -> None:
        self._rights[left].add(right)
        self._lefts[right].add(left)

    def remove(self, left: L, right: R) -> None:
        """Remove a pair, if it is there."""
        if (left, right) in self:
            _discard(self._rights, left, right)
            _discard(self._lefts, right, left)


class MultiMapOverlay(MultiMap[L, R]):
    """A multimap over *base* that keeps its changes apart."""

    def __init__(self, base: MultiMap[L, R]) -> None:
        self.base = base
        self._added: MultiMap[L, R] = MultiMap()
        self._removed: MultiMap[L, R] = MultiMap()

    def __contains__(self, pair: tuple[L, R]) -> bool:
        return pair in self._added or (pair in self.base and pair not in self._removed)

    def __iter__(self) -> Iterator[tuple[L, R]]:
        yield from (pair for pair in self.base if pair not in self._removed)
        yield from self._added

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    def rights(self, left: L) -> Set[R]:
        base, added, removed = (
            pairs.rights(left) for pairs in (self.base, self._added, self._removed)
        )
        return (base - removed) | added if added or removed else base

    def lefts(self, right: R) -> Set[L]:
        base, added, removed = (
            pairs.lefts(right) for pairs in (self.base, self._added, self._removed)
        )
        return (base - removed) | added if added or removed else base

    def has(self, left: L) -> bool:
        kept = len(self.base.rights(left)) - len(self._removed.rights(left))
        return kept > 0 or self._added.has(left)

    def add(self, left: L, right: R) -> None:
        self._removed.remove(left, right)
        if (left, right) not in self.base:
            self._added.add(left, right)

    def remove(self, left: L, right: R) -> None:
        self._added.remove(left, right)
        if (left, right) in self.base:
            self._removed.add(left, right)

    def commit(self) -> None:
        """Apply the changes to the base."""
        for pair in self._removed:
            self.base.remove(*pair)
        for pair in self._added:
            self.base.add(*pair)
        self._added, self._removed = MultiMap(), MultiMap()


def _discard(index: dict[L, set[R]], key: L, value: R) -> None:
    index[key].discard(value)
    if not index[key]:
        del index[key]
