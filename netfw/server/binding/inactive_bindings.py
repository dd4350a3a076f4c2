"""Inactive bindings of a port, as they are stored beside it.  Pure.

A port has one active binding, which is its own, and an inactive one on each host that prepares for
it.  They are stored with the attributes of extension drivers, under a key that is not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import evolve, frozen

from netfw.model.binding import Binding
from netfw.model.wire.ports import BINDING

LEVELS: Final = "binding:levels"
"""Key beside a bound port: the driver and segment of each level. It is not shown."""
WIRED: Final = "wired"
"""Key in the last level of a port that no agent reports on: it counts as wired."""
INACTIVE: Final = "binding:inactive"
"""Key beside a port with inactive bindings, each with its levels. It is not shown."""
MAX_INACTIVE: Final = 16
"""Most inactive bindings of a port."""

Levels = Sequence[Mapping[str, Any]]


@frozen(kw_only=True)
class StoredBinding:
    """A binding of a port to one host, with its levels."""

    binding: Binding
    levels: Levels = ()

    @property
    def host(self) -> str:
        """The host of the binding."""
        return self.binding.host


def active_binding(binding: Binding, extra: Mapping[str, Any]) -> StoredBinding:
    """Return the active binding of a port, alone."""
    alone = evolve(binding, hosts=(), prepared_hosts=())
    return StoredBinding(binding=alone, levels=extra.get(LEVELS, ()))


def inactive_bindings(extra: Mapping[str, Any]) -> dict[str, StoredBinding]:
    """Return the inactive bindings of a port by host."""
    found = {}
    for stored in extra.get(INACTIVE, ()):
        body = {name: value for name, value in stored.items() if name != LEVELS}
        binding = BINDING.parse(body)
        found[binding.host] = StoredBinding(binding=binding, levels=stored[LEVELS])
    return found


def render_inactive(bindings: Iterable[StoredBinding]) -> dict[str, Any]:
    """Return inactive bindings as they are stored."""
    ordered = sorted(bindings, key=lambda each: each.host)
    return {
        INACTIVE: [{**BINDING.render(each.binding), LEVELS: list(each.levels)} for each in ordered]
    }


def is_wired_without_agent(extra: Mapping[str, Any]) -> bool:
    """Return whether no agent reports on a port: it counts as wired."""
    levels: Levels = extra.get(LEVELS) or []
    return bool(levels) and bool(levels[-1].get(WIRED))


def dynamic_segments(extra: Mapping[str, Any]) -> frozenset[str]:
    """Return the ids of the segments below the first level of any binding of a port."""
    every: list[Levels] = [extra.get(LEVELS, ())]
    every += [stored[LEVELS] for stored in extra.get(INACTIVE, ())]
    return frozenset(level["segment_id"] for levels in every for level in levels[1:])
