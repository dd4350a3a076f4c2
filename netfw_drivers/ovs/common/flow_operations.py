"""Changes of flows as operations of a plan.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Protocol

from attrs import frozen

from netfw.errors import OperationRefused
from netfw.flows import Flow
from netfw.ovs.openflow.encode import Key, describe_key
from netfw.ovs.openflow.flow_cache import FlowGroup, FlowPlan
from netfw.ovs.openflow.flow_diff import CookieSpace, FlowChanges
from netfw.plan import Operation

_FLOWS = "flows/"


class FlowPlanner(Protocol):
    """The flows of a bridge: a mirror of them, or a cache."""

    def plan(
        self,
        put: Mapping[Hashable, FlowGroup],
        drop: Collection[Hashable] = (),
        *,
        complete: CookieSpace | None = None,
        keep: Collection[Hashable] = (),
        erase: Collection[CookieSpace] = (),
    ) -> FlowPlan: ...


@frozen
class UnwantedFlow:
    """A flow of which only the key is known."""

    key: Key

    def __str__(self) -> str:
        return describe_key(self.key)


@frozen
class FlowStep:
    """One flow to add, change or remove; a refusal of the switch quotes ``str(subject)``."""

    lead: str
    subject: Flow | UnwantedFlow

    def __str__(self) -> str:
        return self.lead + str(self.subject)


def flow_backend(bridge: str) -> str:
    """Return the backend of operations on the flows of *bridge*."""
    return _FLOWS + bridge


def bridge_of(backend: str) -> str:
    """Return the bridge of a `flow_backend`."""
    return backend.removeprefix(_FLOWS)


def make_flow_operations(
    bridge: str, changes: FlowChanges, owners: Callable[[Key], frozenset[Hashable]]
) -> Iterator[Operation]:
    """Yield an operation for each of *changes*; *owners* returns the keys that a flow is for."""
    backend = flow_backend(bridge)

    def operation(lead: str, key: Key, subject: Flow | UnwantedFlow) -> Operation:
        step = FlowStep(lead, subject)
        return Operation(backend, step.__str__, owners(key), step)

    for key, cookie in changes.removed.items():
        yield operation(f"remove cookie={cookie:#x},", key, UnwantedFlow(key))
    for encoded in changes.added:
        yield operation("add ", encoded.key, encoded.flow)
    for encoded in changes.changed:
        yield operation("change ", encoded.key, encoded.flow)


def refused_operations(
    refusal: OperationRefused, operations: Iterable[Operation]
) -> OperationRefused:
    """Return *refusal* with the operations in place of the flows that the switch quotes."""
    steps = {
        str(operation.payload.subject): operation
        for operation in operations
        if isinstance(operation.payload, FlowStep)
    }
    return OperationRefused(
        {steps.get(str(flow), flow): reason for flow, reason in refusal.reasons.items()}
    )
