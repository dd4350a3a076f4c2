"""The difference between desired and actual state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from attrs import frozen

K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")


@frozen
class Difference(Generic[K, V, W]):
    """Entries to add, to change (from, to) and to remove; falsy when nothing differs."""

    added: Mapping[K, V]
    changed: Mapping[K, tuple[W, V]]
    removed: Mapping[K, W]

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


def diff(wanted: Mapping[K, V], actual: Mapping[K, W]) -> Difference[K, V, W]:
    """Compare two mappings by key and value, keeping the order of each."""
    return Difference(
        added={key: value for key, value in wanted.items() if key not in actual},
        changed={
            key: (actual[key], value)
            for key, value in wanted.items()
            if key in actual and actual[key] != value
        },
        removed={key: value for key, value in actual.items() if key not in wanted},
    )
