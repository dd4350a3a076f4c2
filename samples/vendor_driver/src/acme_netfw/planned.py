"""The Acme driver as a Reconciler: it says what it would do before it does it.

Register this class instead of the simple one, and a dry run and a proof of what happens when the
driver dies come with it.  What to do is decided by the same function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from attrs import frozen

from acme_netfw.interface import AcmeInterfaceDriver, decide, owner
from acme_netfw.switch import SwitchPort
from netfw.drivers.base import DriverInfo
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.interface import Attachment, InterfaceCapability
from netfw.drivers.reconciler import Checkpoint, Reconciler
from netfw.errors import OperationRefused
from netfw.model import PortId
from netfw.plan import Operation, Plan, Stage, Update

Ports = Mapping[str, SwitchPort]


@frozen
class Replace:
    """Make the port *name* be *after*, provided that it is *before*; ``None``: no such port."""

    name: str
    before: SwitchPort | None
    after: SwitchPort | None


class PlannedAcmeInterfaceDriver(Reconciler[PortId, Attachment, Ports], AcmeInterfaceDriver):
    """Ports of an Acme switch, by a plan of one stage."""

    def describe(self) -> DriverInfo[HostCapability | InterfaceCapability]:
        return DriverInfo("acme", {InterfaceCapability.MTU_CHANGE, HostCapability.PLAN})

    def observe(self, scope: Update[PortId, Attachment] | None) -> Ports:
        with self._switch.session() as ports:
            return dict(ports)

    def plan(self, update: Update[PortId, Attachment], observed: Ports) -> Plan:
        after, refused = decide(update, observed)
        operations = tuple(_operations(observed, after))
        return Plan(stages=[Stage(operations)] if operations else [], refused=refused)

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        for stage in plan.stages:
            with self._switch.session() as ports:
                _carry_out(stage, ports)
            checkpoint(stage)


def _operations(observed: Ports, after: Ports) -> Iterator[Operation]:
    for name in sorted(observed.keys() | after.keys()):
        step = Replace(name, observed.get(name), after.get(name))
        if step.before != step.after:
            owners = {owner(port) for port in (step.before, step.after) if port} - {None}
            yield Operation("acme", _text(step), owners, step)


def _text(step: Replace) -> str:
    if step.after is None:
        return f"remove {step.name}"
    state = "up" if step.after.up else "down"
    verb = "add" if step.before is None else "change"
    return f"{verb} {step.name} mac={step.after.mac} mtu={step.after.mtu} {state}"


def _carry_out(stage: Stage, ports: dict[str, SwitchPort]) -> None:
    """All of *stage*, or nothing: the plan was made on a picture that may be old by now."""
    steps = {operation: cast(Replace, operation.payload) for operation in stage.operations}
    stale: dict[object, str] = {
        operation: f"{step.name} was changed meanwhile"
        for operation, step in steps.items()
        if ports.get(step.name) != step.before
    }
    if stale:
        raise OperationRefused(stale)
    for step in steps.values():
        if step.after is None:
            del ports[step.name]
        else:
            ports[step.name] = step.after
