"""A fake backend: it holds values, and refuses, crashes or disappears as a test specifies."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Generic, TypeVar, cast

from attrs import define, field

from netfw.drivers.base import Capability
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.reconciler import Checkpoint, Reconciler
from netfw.drivers.values.events import Event, FeedLost, KeysChanged, Sink
from netfw.errors import BackendUnavailable, Conflict
from netfw.plan import Operation, Plan, Stage, Update, diff

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@define
class FakeBackend(Generic[K, V]):
    """The state of a fake machine, and how it behaves.  A test may change both."""

    present: dict[K, V] = field(factory=dict)
    refused: dict[K, str] = field(factory=dict)
    """Keys that are refused, and why."""
    unremovable: dict[K, str] = field(factory=dict)
    """Keys that cannot be removed, and why."""
    crashing: set[K] = field(factory=set)
    """Keys that make the driver raise an error that no contract allows."""
    online: bool = True
    history: list[str] = field(factory=list)
    """Every executed operation, in order."""
    sinks: list[Sink] = field(factory=list)
    rereads: int = 0

    def notify(self, event: Event) -> None:
        """Send an event to every sink."""
        for sink in tuple(self.sinks):
            sink(event)

    def disturb(self, key: K) -> None:
        """Remove what is present, as another program would, and send the event."""
        self.present.pop(key, None)
        self.notify(KeysChanged("it was removed", {key}))

    def restart(self) -> None:
        """Lose everything, and the change feed too."""
        self.present.clear()
        self.notify(FeedLost("the machine was restarted"))

    def answer(self) -> None:
        """Return if the machine is reachable.

        :raises BackendUnavailable: it is not.
        """
        if not self.online:
            raise BackendUnavailable("the machine does not answer")


class FakeReconciler(Reconciler[K, V, Mapping[K, V]], Generic[K, V]):
    """A driver for a fake machine; a test may change the machine without the driver."""

    CAPABILITIES: tuple[Capability, ...] = (HostCapability.PLAN, HostCapability.WATCH)

    def __init__(self, machine: FakeBackend[K, V] | None = None) -> None:
        self.machine: FakeBackend[K, V] = FakeBackend() if machine is None else machine

    def present(self) -> frozenset[K]:
        self.machine.answer()
        return frozenset(self.machine.present)

    def watch(self, sink: Sink) -> None:
        self.machine.sinks.append(sink)

    def observe(self, scope: Update[K, V] | None) -> Mapping[K, V]:
        self.machine.answer()
        self.machine.rereads += scope is None
        return dict(self.machine.present)

    def waits_for(self, key: K, value: V, final: Mapping[K, V]) -> str:
        """Return what a key waits for, when the rest is as in *final*; empty: nothing."""
        return ""

    def plan(self, update: Update[K, V], observed: Mapping[K, V]) -> Plan:
        for key in (*update.put, *update.drop):
            if key in self.machine.crashing:
                raise RuntimeError(f"{key} makes the driver crash")
        refused = {k: Conflict(why) for k, why in self.machine.refused.items() if k in update.put}
        put = {key: value for key, value in update.put.items() if key not in refused}
        gone = update.drop
        if update.complete:
            gone |= observed.keys() - update.put.keys() - update.keep
        unremovable = self.machine.unremovable
        refused |= {k: Conflict(unremovable[k]) for k in gone & unremovable.keys()}
        gone -= unremovable.keys()
        final = {**{k: v for k, v in observed.items() if k not in gone}, **put}
        waiting = {k: why for k, v in put.items() if (why := self.waits_for(k, v, final))}
        ready = {key: value for key, value in put.items() if key not in waiting}
        present = {key: observed[key] for key in observed.keys() & (ready.keys() | gone)}
        difference = diff(ready, present)
        operations = [
            *(_operation("remove", key, None) for key in difference.removed),
            *(_operation("add", key, value) for key, value in difference.added.items()),
            *(_operation("change", key, value) for key, (_, value) in difference.changed.items()),
        ]
        return Plan([Stage(operations)] if operations else [], waiting, refused)

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        for stage in plan.stages:
            self.machine.answer()
            for operation in stage.operations:
                key, value = cast(tuple[K, V | None], operation.payload)
                if value is None:
                    del self.machine.present[key]
                else:
                    self.machine.present[key] = value
                self.machine.history.append(operation.text)
            checkpoint(stage)


def _operation(verb: str, key: Any, value: object) -> Operation:
    return Operation("memory", f"{verb} {key}", {key}, (key, value))
