"""The Acme driver as a Reconciler: observe, plan, apply.

Register this class instead of the simple one to get a dry run, and the tests of the suite that kill
the driver after each stage.  Both classes decide with the same function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from attrs import frozen

from acme_netfw.interface import AcmeInterfaceDriver, decide, owner_of
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
    """Replacement of the port *name*: *after*, provided that it is *before*; ``None``: no port."""

    name: str
    before: SwitchPort | None
    after: SwitchPort | None


class PlannedAcmeInterfaceDriver(Reconciler[PortId, Attachment, Ports], AcmeInterfaceDriver):
    """Ports of an Acme switch, with a plan of one stage."""

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
                _execute(stage, ports)
            checkpoint(stage)


def _operations(observed: Ports, after: Ports) -> Iterator[Operation]:
    for name in sorted(observed.keys() | after.keys()):
        step = Replace(name, observed.get(name), after.get(name))
        if step.before != step.after:
            owners = {owner_of(port) for port in (step.before, step.after) if port} - {None}
            yield Operation("acme", _render_step(step), owners, step)


def _render_step(step: Replace) -> str:
    if step.after is None:
        return f"remove {step.name}"
    state = "up" if step.after.up else "down"
    verb = "add" if step.before is None else "change"
    return f"{verb} {step.name} mac={step.after.mac} mtu={step.after.mtu} {state}"


def _execute(stage: Stage, ports: dict[str, SwitchPort]) -> None:
    """Execute all of *stage*, or nothing if the switch changed since the plan was made."""
    steps = {operation: cast(Replace, operation.payload) for operation in stage.operations}
    stale: dict[object, str] = {
        operation: f"{step.name} has changed since the plan was made"
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
