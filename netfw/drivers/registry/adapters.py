"""Adapters: drivers of other frameworks, found in the entry points of those.

An adapter registers in the group of its contract with ``.adapters`` after it, by the name of the
group that it adapts.  It is a function that makes a driver class for a name of that group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from typing import cast

from netfw.drivers.registry.entry_names import ADAPTERS
from netfw.drivers.registry.entry_point_import import import_object
from netfw.drivers.registry.entry_point_index import Points, origin_of, points_named
from netfw.errors import DriverInvalid


def adapters(points: Points, group: str) -> Mapping[str, EntryPoint]:
    """Return the adapters of a contract by the group that each adapts."""
    return {
        name: found[0] for (each, name), found in sorted(points.items()) if each == group + ADAPTERS
    }


def find(
    points: Points, group: str, name: str
) -> tuple[EntryPoint | None, list[tuple[str, EntryPoint]]]:
    """Return the entry points *name* of *group* with their distributions, in their order.

    If there are none, return those of the first adapter that finds some, after the adapter itself.
    """
    if own := points_named(points, group, name):
        return None, own
    for foreign_group, adapter in adapters(points, group).items():
        if foreign := points_named(points, foreign_group, name):
            return adapter, foreign
    return None, []


def adapt(adapter: EntryPoint, name: str) -> object:
    """Return what *adapter* makes of the driver *name*.

    :raises DriverInvalid: the adapter cannot be imported, or cannot adapt it.
    """
    origin = origin_of(adapter)
    make = cast(Callable[[str], object], import_object(adapter, origin))
    try:
        return make(name)
    except Exception as exc:
        raise DriverInvalid(
            f"{adapter.group}: {adapter.name!r} from {origin} cannot adapt {name!r}: "
            f"{type(exc).__name__}: {exc}"
        ) from exc
