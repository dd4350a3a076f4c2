"""Desired values by key, with the keys that changed since they were last taken.  Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ChangedValues(Mapping[K, V], Generic[K, V]):
    """Values by key; `set` marks a key as changed when its value differs from before."""

    def __init__(self) -> None:
        self._values: dict[K, V] = {}
        self._changed: set[K] = set()

    def __getitem__(self, key: K) -> V:
        return self._values[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def set(self, key: K, value: V | None) -> None:
        """Store *value*; ``None`` removes the key."""
        if self._values.get(key) == value:
            return
        self._changed.add(key)
        if value is None:
            del self._values[key]
        else:
            self._values[key] = value

    def take_changed(self) -> frozenset[K]:
        """Return the keys whose values changed since the last call."""
        changed, self._changed = frozenset(self._changed), set[K]()
        return changed
