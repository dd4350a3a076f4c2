"""VersionedMap: a mapping whose copies cost the latest changes, not the entries.  Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, MutableMapping
from typing import Any, Final, Generic, TypeVar, overload

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")

MAX_CHANGES: Final = 64
"""Changes that copies share with no other copy; with more, a new base is made."""
_REMOVED: Final[Any] = object()


class MapVersion(Mapping[K, V], Generic[K, V]):
    """The entries at one moment: *base*, which is never changed, and the *changes* since."""

    __slots__ = ("_base", "_changes")

    def __init__(self, base: dict[K, V], changes: dict[K, V]) -> None:
        self._base, self._changes = base, changes

    def __getitem__(self, key: K) -> V:
        value = self._changes[key] if key in self._changes else self._base[key]
        if value is _REMOVED:
            raise KeyError(key)
        return value

    @overload
    def get(self, key: K, default: None = None, /) -> V | None: ...
    @overload
    def get(self, key: K, default: V | T, /) -> V | T: ...
    def get(self, key: K, default: Any = None, /) -> Any:
        value = self._changes[key] if key in self._changes else self._base.get(key, default)
        return default if value is _REMOVED else value

    def __contains__(self, key: object) -> bool:
        if key in self._changes:
            return self._changes[key] is not _REMOVED
        return key in self._base

    def __iter__(self) -> Iterator[K]:
        yield from (key for key in self._base if key not in self._changes)
        yield from (key for key, value in self._changes.items() if value is not _REMOVED)

    def __len__(self) -> int:
        return sum(1 for _ in self) if self._changes else len(self._base)

    def __repr__(self) -> str:
        return repr(dict(self))


class VersionedMap(MapVersion[K, V], MutableMapping[K, V]):
    """A mapping that is changed and copied often.  Not thread-safe: its owner locks."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__({}, {})

    def __setitem__(self, key: K, value: V) -> None:
        self._changes[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        if key in self._base:
            self._changes[key] = _REMOVED
        else:
            del self._changes[key]

    def copy(self) -> Mapping[K, V]:
        """Return the present entries, which later changes do not touch."""
        if len(self._changes) > MAX_CHANGES:
            self._base, self._changes = dict(self), {}
        return MapVersion(self._base, dict(self._changes))
