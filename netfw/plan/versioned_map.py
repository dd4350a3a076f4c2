"""VersionedMap: a mapping whose copies cost the latest changes, not the entries.  Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, TypeVar

from netfw.plan.overlay import Overlay

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MAX_CHANGES: Final = 64
"""Changes that copies share with no other copy; with more, a new base is made."""


class VersionedMap(Overlay[K, V]):
    """A mapping that is changed and copied often.  Not thread-safe: its owner locks.

    It and its copies are overlays of one base, which is replaced and never changed.
    """

    def __init__(self) -> None:
        super().__init__({})

    def discard(self, key: K) -> None:
        """Remove *key*; one that the base lacks leaves nothing behind."""
        super().discard(key)
        if key not in self.base:
            del self.removed[key]

    def commit(self) -> None:
        """Make a new base with the changes; copies keep the former one."""
        self.base, self.changed, self.removed = dict(self), {}, {}

    def copy(self) -> Mapping[K, V]:
        """Return the present entries, which later changes do not touch."""
        if len(self.changed) + len(self.removed) > MAX_CHANGES:
            self.commit()
        version = Overlay(self.base)
        version.changed, version.removed = dict(self.changed), dict(self.removed)
        return version
