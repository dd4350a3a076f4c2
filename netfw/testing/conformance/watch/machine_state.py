"""What a machine has, as names with attributes, and comparisons of two such states.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import field, frozen

IDENTITY = "identity"
"""The attribute that differs if an object of one name is made anew: an ifindex, a row's UUID."""
_DRAWN = frozenset({IDENTITY, "mac"})
"""Attributes that the kernel or a database draws for an object that is made anew."""


def _frozen_objects(objects: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, object]]:
    return {name: dict(attributes) for name, attributes in objects.items()}


@frozen
class MachineState:
    """Objects of a machine, by names that an operator understands."""

    objects: dict[str, dict[str, object]] = field(factory=dict, converter=_frozen_objects)

    def without_identities(self) -> MachineState:
        """Return the same objects without what is drawn for each that is made."""
        return MachineState(
            {
                name: {key: value for key, value in attributes.items() if key not in _DRAWN}
                for name, attributes in self.objects.items()
            }
        )


def machine_changes(before: MachineState, after: MachineState) -> Iterator[str]:
    """Yield what appeared, vanished, was made anew or was changed, in words."""
    was, now = before.objects, after.objects
    yield from (f"{name} vanished" for name in sorted(was.keys() - now))
    yield from (f"{name} appeared" for name in sorted(now.keys() - was))
    for name in sorted(was.keys() & now):
        old, new = was[name], now[name]
        if old.get(IDENTITY) != new.get(IDENTITY):
            yield f"{name} was made anew: {old.get(IDENTITY)} is now {new.get(IDENTITY)}"
            continue
        for key in sorted(old.keys() | new):
            if old.get(key) != new.get(key):
                yield f"{key} of {name} was {old.get(key)} and is {new.get(key)}"


def effects(states: Sequence[MachineState], after: MachineState) -> Iterator[str]:
    """Yield what a step did beyond a return to one of the former *states*, in words."""
    first = states[0].objects
    yield from (f"{name} vanished" for name in sorted(first.keys() - after.objects))
    for name, attributes in sorted(after.objects.items()):
        if all(state.objects.get(name) != attributes for state in states):
            yield f"{name} {'changed' if name in states[-1].objects else 'appeared'}"
