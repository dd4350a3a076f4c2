"""Fingerprints of values, to see that a function left its arguments as they were."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import islice

LIMIT = 500
"""Parts of a value that are looked at, the nearest ones first."""
_PLAIN = (str, bytes, int, float, bool, type(None))


def fingerprint(value: object, *, deep: bool = False) -> tuple[object, ...]:
    """Return something that differs if a part of *value* was added, removed or replaced.

    Private fields count: a value that caches something changes.

    :param deep: look into objects that are not values too.
    """
    parts: list[object] = []
    queue: deque[object] = deque([value])
    seen: set[int] = set()
    while queue and len(parts) < LIMIT:
        part = queue.popleft()
        if isinstance(part, _PLAIN):
            parts.append(part)
        elif id(part) not in seen:
            seen.add(id(part))
            size, members = _members(part, deep)
            parts.append(size)
            queue.extend(islice(members, LIMIT))
    return tuple(parts)


def _members(part: object, deep: bool) -> tuple[int, Iterable[object]]:
    """Return what stands for *part* itself, and its members."""
    if isinstance(part, Mapping):
        pairs = list(islice(part.items(), LIMIT))
        return len(part), (member for pair in pairs for member in pair)
    if isinstance(part, set | frozenset) and len(part) <= LIMIT:
        return hash(frozenset(part)), ()
    if isinstance(part, Set):
        return len(part), ()
    if isinstance(part, Sequence):
        return len(part), iter(part)
    if fields := getattr(type(part), "__attrs_attrs__", ()):
        return 0, (getattr(part, field.name, None) for field in fields)
    return id(part), getattr(part, "__dict__", {}).values() if deep else ()
