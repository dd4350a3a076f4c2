"""Fingerprints of values, to see that a function left its arguments as they were."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import chain, islice
from operator import attrgetter
from typing import Any

LIMIT = 500
"""Parts of a value that are looked at, the nearest ones first."""
_PLAIN: frozenset[type] = frozenset({str, bytes, int, float, bool, type(None)})

Reader = Callable[[Any], tuple[object, Iterable[object]]]
"""Returns what stands for a value itself, and its members."""


def fingerprint(value: object, *, deep: bool = False) -> tuple[object, ...]:
    """Return something that differs if a part of *value* was added, removed or replaced.

    Private fields count: a value that caches something changes.

    :param deep: look into objects that are not values too.
    """
    parts: list[object] = []
    queue: list[object] = [value]
    seen: set[int] = set()
    for part in queue:  # which grows
        if len(parts) >= LIMIT:
            break
        kind: type = type(part)
        if kind in _PLAIN:
            parts.append(part)
        elif id(part) not in seen:
            seen.add(id(part))
            itself, members = _reader(kind, deep)(part)
            parts.append(itself)
            queue.extend(members)
    return tuple(parts)


@lru_cache(maxsize=10_000)
def _reader(kind: type, deep: bool) -> Reader:
    """Return how to read objects of *kind*."""
    for base, read in _READERS.items():
        if issubclass(kind, base):
            return read
    if fields := getattr(kind, "__attrs_attrs__", ()):
        return _attributes_reader([field.name for field in fields])
    return _read_object if deep else lambda part: (id(part), ())


def _read_mapping(part: Mapping[object, object]) -> tuple[object, Iterable[object]]:
    return len(part), chain.from_iterable(islice(part.items(), LIMIT // 2))


def _read_set(part: set[object] | frozenset[object]) -> tuple[object, Iterable[object]]:
    return hash(frozenset(part)) if len(part) <= LIMIT else len(part), ()


_READERS: Mapping[type, Reader] = {
    **dict.fromkeys(_PLAIN, lambda part: (part, ())),  # of their subclasses: enums
    Mapping: _read_mapping,
    set: _read_set,
    frozenset: _read_set,
    Set: lambda part: (len(part), ()),
    Sequence: lambda part: (len(part), islice(part, LIMIT)),
}


def _read_object(part: object) -> tuple[object, Iterable[object]]:
    return id(part), getattr(part, "__dict__", {}).values()


def _attributes_reader(names: list[str]) -> Reader:
    if len(names) == 1:  # a getter of one name returns no tuple
        return lambda part: (0, (getattr(part, names[0], None),))
    read_all = attrgetter(*names)

    def read(part: object) -> tuple[object, Iterable[object]]:
        try:
            return 0, read_all(part)
        except AttributeError:  # one is not set yet
            return 0, [getattr(part, name, None) for name in names]

    return read
