"""The entry points of the import path, by group and name."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import Distribution, EntryPoint, distributions, entry_points
from itertools import chain
from typing import NamedTuple, TypeAlias

from netfw.drivers.registry.entry_names import group_problem

Points: TypeAlias = Mapping[tuple[str, str], Sequence[EntryPoint]]
"""By group and name."""


class MisplacedPoint(NamedTuple):
    """An entry point in a group that no contract has."""

    group: str
    name: str
    origin: str
    problem: str


def points_named(points: Points, group: str, name: str) -> list[tuple[str, EntryPoint]]:
    """Return the entry points *name* of *group* with their distributions, in their order."""
    return sorted((origin_of(point), point) for point in points.get((group, name), ()))


def all_points() -> Points:
    """Return all entry points, from the cache unless the import path has changed."""
    return _points_at(_search_path())


def misplaced_points(groups: Collection[str]) -> list[MisplacedPoint]:
    """Return the entry points that were probably meant for one of *groups*."""
    return sorted(
        MisplacedPoint(group, name, origin_of(point), problem)
        for (group, name), points in all_points().items()
        if (problem := group_problem(group, groups))
        for point in points
    )


def _search_path() -> tuple[tuple[str, int], ...]:
    """Return the import path with the times of its last changes: the key of the cache."""
    return tuple((directory, _changed(directory)) for directory in sys.path)


def _changed(directory: str) -> int:
    try:
        return os.stat(directory or ".").st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=1)
def _points_at(search_path: tuple[tuple[str, int], ...]) -> Points:
    """Return all entry points, cached: reading them opens a file of each package."""
    return read_points()


def read_points() -> Points:
    """Return all entry points of the import path, without those that cannot be read."""
    try:
        if sys.version_info < (3, 12):  # there they come by group
            each = list(chain(*dict.values(entry_points())))
        else:
            each = list(entry_points())
    except (ValueError, TypeError, OSError):  # one file that is no entry_points.txt fails them all
        each = [point for points, _ in _read_each() for point in points]
    found: dict[tuple[str, str], list[EntryPoint]] = {}
    for point in each:
        found.setdefault((point.group, point.name), []).append(point)
    return found


def unreadable_distributions() -> list[tuple[str, str]]:
    """Return name and version of distributions whose entry points cannot be read, and why."""
    return sorted({problem for _, problem in _read_each() if problem is not None})


def _read_each() -> Iterator[tuple[Sequence[EntryPoint], tuple[str, str] | None]]:
    """Yield the entry points of each distribution, or why they cannot be read."""
    seen: set[str] = set()
    for distribution in distributions():
        origin = _name_and_version(distribution)
        if origin.partition(" ")[0] in seen:
            continue
        seen.add(origin.partition(" ")[0])
        try:
            yield tuple(distribution.entry_points), None
        except (ValueError, TypeError, OSError) as exc:
            yield (), (origin, f"its entry_points.txt cannot be read: {exc}")


def origin_of(point: EntryPoint) -> str:
    """Return name and version of the distribution of *point*."""
    return "an unknown distribution" if point.dist is None else _name_and_version(point.dist)


@lru_cache(maxsize=256)
def _name_and_version(distribution: Distribution) -> str:
    """Return name and version, cached: each reads and parses a file of the package."""
    metadata = distribution.metadata
    return f"{metadata['Name']} {metadata['Version']}"
