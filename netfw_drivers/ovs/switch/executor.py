"""Carries out the plans of the switch driver.  No policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from netfw.errors import OperationRefused
from netfw.ovs.openflow import FlowPlan
from netfw.ovs.ovsdb.client import Ovsdb
from netfw.ovs.ovsdb.operations import AddPort, RemovePort, SetColumns, Table
from netfw.ovs.ovsdb.values import Port
from netfw.plan import Operation, Stage
from netfw_drivers.ovs.common.bridge_flows import BridgeFlows
from netfw_drivers.ovs.common.flow_operations import bridge_of, refused_operations
from netfw_drivers.ovs.switch.bridge_locks import BridgeLocks
from netfw_drivers.ovs.switch.plan.ovsdb_changes import LINKS, OVSDB
from netfw_drivers.ovs.switch.plan.stages import SwitchPlan
from netfw_drivers.ovs.switch.port_tracker import PortTracker
from netfw_drivers.ovs.switch.veth_links import HostLinks

MirrorPlan = Callable[[str, SwitchPlan], tuple[BridgeFlows, FlowPlan]]


class Executor:
    """One plan, stage by stage."""

    def __init__(
        self,
        ovsdb: Ovsdb,
        tenure: BridgeLocks,
        plugged: PortTracker,
        mirror_plan: MirrorPlan,
        plan: SwitchPlan,
        *,
        links: HostLinks,
    ) -> None:
        self._ovsdb, self._tenure, self._plugged = ovsdb, tenure, plugged
        self._mirror_plan, self._plan = mirror_plan, plan
        self._links = links
        self._done: set[str] = set()

    def carry_out(self, stage: Stage) -> None:
        """Do one stage, all of it or nothing.

        :raises OperationRefused: nothing of it was done.
        :raises BackendUnavailable: the switch went away, or somebody else has it.
        """
        self._tenure.take()
        if stage.backend == OVSDB:
            self._transact(stage)
        elif stage.backend == LINKS:
            self._links.carry_out(stage)
        else:
            self._commit(stage)

    def settle(self) -> None:
        """Note what was as it should be already, so that it costs nothing next time.

        :raises OperationRefused: the switch numbered a port otherwise than the plan relies on.
        """
        self._check_numbers()
        for bridge, plan in self._plan.flows.items():
            # Of a bridge whose row changed, the plan knew the flows of before.
            doubtful = bridge in self._plan.unsettled
            if bridge not in self._done and (plan.holds or plan.gone or doubtful):
                flows, now = self._mirror_plan(bridge, self._plan)
                flows.mirror.apply(now)

    def _transact(self, stage: Stage) -> None:
        payloads: dict[Any, Operation] = {o.payload: o for o in stage.operations}
        for payload in payloads:
            self._expect(payload)
        try:
            self._ovsdb.run(
                list(payloads), wait=any(map(_needs_switch, payloads)), locks=self._tenure.locks
            )
        except OperationRefused as refusal:
            reasons = {payloads.get(key, key): why for key, why in refusal.reasons.items()}
            raise OperationRefused(reasons) from refusal

    def _expect(self, payload: object) -> None:
        """Tell what is about to come back as news, and is none."""
        if isinstance(payload, RemovePort):
            self._plugged.expect(payload.name, None)
        if not isinstance(payload, SetColumns):
            return
        if payload.table is Table.BRIDGE:
            self._plugged.expect_records(payload.keys.get("external_ids", {}))
            return
        port = self._ovsdb.port(payload.record)
        if port is not None and payload.table is Table.PORT:
            self._plugged.expect(port.name, _after(port, payload))
        elif port is not None and payload.table is Table.INTERFACE:
            self._plugged.expect(port.name, _with_options(port, payload))

    def _commit(self, stage: Stage) -> None:
        self._check_numbers()
        bridge = bridge_of(stage.backend)
        flows, plan = self._mirror_plan(bridge, self._plan)
        try:
            flows.mirror.apply(plan)
        except OperationRefused as refusal:
            raise refused_operations(refusal, stage.operations) from refusal
        self._done.add(bridge)

    def _check_numbers(self) -> None:
        """The flows rely on the numbers that the plan asked for.

        :raises OperationRefused: the switch gave others; planned again, they will fit.
        """
        assert self._plan.outline is not None
        requested = self._plan.outline.draft.requested
        added = {o.payload.name: o for o in self._plan if isinstance(o.payload, AddPort)}
        wrong: dict[object, str] = {}
        for name, number in requested.items():
            port = self._ovsdb.port(name)
            given = port.interface.ofport if port is not None else None
            if given != number:
                error = port.interface.error if port is not None else "it is gone"
                wrong[added[name]] = f"its number is {given}, not {number}: {error}"
        if wrong:
            raise OperationRefused(wrong)


def _needs_switch(payload: object) -> bool:
    """Whether later stages rely on what the switch makes of it.

    On a port's row they do not: its tag tells people and tools what the flows do.
    """
    if not isinstance(payload, SetColumns) or payload.table is Table.INTERFACE:
        return True
    return payload.table is Table.BRIDGE and bool(payload.values)


def _after(port: Port, change: SetColumns) -> Port:
    config = dict(port.other_config)
    for key, value in change.keys.get("other_config", {}).items():
        config.pop(key, None)
        if value is not None:
            config[key] = value
    columns: dict[str, Any] = dict(change.values)
    return evolve(port, other_config=config, **columns)


def _with_options(port: Port, change: SetColumns) -> Port:
    options = dict(port.interface.options)
    for key, value in change.keys.get("options", {}).items():
        options.pop(key, None)
        if value is not None:
            options[key] = value
    return evolve(port, interfaces=(evolve(port.interface, options=options),))
