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

    def __repr__(self) -> str:
        return repr(dict(self))

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
    """A many-to-many relation of keys and values, indexed by both."""

    def __init__(self) -> None:
        self._values: dict[L, set[R]] = defaultdict(set)
        self._keys: dict[R, set[L]] = defaultdict(set)

    def __iter__(self) -> Iterator[tuple[L, R]]:
        return ((key, value) for key, values in self._values.items() for value in values)

    def __contains__(self, pair: tuple[L, R]) -> bool:
        return pair[1] in self._values.get(pair[0], ())

    def __bool__(self) -> bool:
        return bool(self._values)

    def values_of(self, key: L) -> Set[R]:
        """Return the values of *key*."""
        return self._values.get(key, frozenset())

    def keys_of(self, value: R) -> Set[L]:
        """Return the keys of *value*."""
        return self._keys.get(value, frozenset())

    def has_key(self, key: L) -> bool:
        """Return whether *key* has any value; costs the same however many there are."""
        return key in self._values

    def add(self, key: L, value: R) -> None:
        self._values[key].add(value)
        self._keys[value].add(key)

    def remove(self, key: L, value: R) -> None:
        """Remove a pair, if it is there."""
        if (key, value) in self:
            _discard(self._values, key, value)
            _discard(self._keys, value, key)


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

    def values_of(self, key: L) -> Set[R]:
        base, added, removed = (
            pairs.values_of(key) for pairs in (self.base, self._added, self._removed)
        )
        return (base - removed) | added if added or removed else base

    def keys_of(self, value: R) -> Set[L]:
        base, added, removed = (
            pairs.keys_of(value) for pairs in (self.base, self._added, self._removed)
        )
        return (base - removed) | added if added or removed else base

    def has_key(self, key: L) -> bool:
        kept = len(self.base.values_of(key)) - len(self._removed.values_of(key))
        return kept > 0 or self._added.has_key(key)

    def add(self, key: L, value: R) -> None:
        self._removed.remove(key, value)
        if (key, value) not in self.base:
            self._added.add(key, value)

    def remove(self, key: L, value: R) -> None:
        self._added.remove(key, value)
        if (key, value) in self.base:
            self._removed.add(key, value)

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
