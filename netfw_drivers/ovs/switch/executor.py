"""Executor of the switch driver's plans.  No policy."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from netfw.errors import BackendUnavailable, OperationRefused
from netfw.ovs.ovsdb.client import Ovsdb
from netfw.ovs.ovsdb.operations import AddPort, OvsdbTable, RemovePort, SetColumns
from netfw.ovs.ovsdb.values import OvsdbPort
from netfw.plan import Operation, Stage
from netfw_drivers.ovs.common.flow_operations import bridge_of, refused_operations
from netfw_drivers.ovs.switch.bridge_locks import BridgeLocks
from netfw_drivers.ovs.switch.flow_mirrors import BridgeFlowMirrors
from netfw_drivers.ovs.switch.htb_mirror import HtbMirror
from netfw_drivers.ovs.switch.plan.bandwidth_guarantees import TRAFFIC
from netfw_drivers.ovs.switch.plan.ovsdb_changes import LINKS, OVSDB
from netfw_drivers.ovs.switch.plan.plan import SwitchPlan
from netfw_drivers.ovs.switch.port_tracker import PortTracker
from netfw_drivers.ovs.switch.veth_links import VethLinks


class SwitchExecutor:
    """Executes one plan, stage by stage."""

    def __init__(
        self,
        ovsdb: Ovsdb,
        locks: BridgeLocks,
        tracker: PortTracker,
        mirrors: BridgeFlowMirrors,
        *,
        links: VethLinks,
        traffic: HtbMirror,
        plan: SwitchPlan,
    ) -> None:
        self._ovsdb, self._locks, self._tracker = ovsdb, locks, tracker
        self._mirrors, self._links, self._plan = mirrors, links, plan
        self._traffic = traffic
        self._done: set[str] = set()

    def execute(self, stage: Stage) -> None:
        """Execute one stage, all of it or nothing.

        :raises OperationRefused: nothing of it was done.
        :raises BackendUnavailable: the switch went away, or another process has its lock.
        """
        self._locks.acquire()
        if stage.backend == OVSDB:
            self._transact(stage)
        elif stage.backend == LINKS:
            self._links.execute(stage)
        elif stage.backend == TRAFFIC:
            self._traffic.execute(stage)
        else:
            self._commit(stage)

    def finish(self) -> None:
        """Record flows that needed no change, so that the next plan does not compare them again.

        :raises OperationRefused: the switch gave a port another number than the plan relies on.
        """
        self._check_numbers()
        for bridge, planned in self._plan.outline.flows.items():
            # The flows of a bridge whose row has changed were planned on those of before.
            outdated = bridge in self._plan.replanned
            unrecorded = planned.flows.holds or planned.flows.gone
            if bridge not in self._done and (unrecorded or outdated):
                self._apply_flows(bridge)

    def _apply_flows(self, bridge: str) -> None:
        """Apply the flows of the plan; plan them again where they could be outdated."""
        planned = self._plan.outline.flows[bridge]
        connected, replanned = bridge in self._mirrors, bridge in self._plan.replanned
        if connected and replanned:
            self._mirrors.wait_answer(bridge)
        mirror = self._mirrors.current(bridge).mirror
        fits = connected and not replanned
        mirror.apply(planned.flows if fits else planned.request.plan(mirror))

    def _transact(self, stage: Stage) -> None:
        payloads: dict[Any, Operation] = {o.payload: o for o in stage.operations}
        for payload in payloads:
            self._expect(payload)
        try:
            self._ovsdb.run(
                list(payloads), wait=any(map(_needs_switch, payloads)), locks=self._locks.locks
            )
        except OperationRefused as refusal:
            self._tracker.expect_nothing()
            reasons = {payloads.get(key, key): why for key, why in refusal.reasons.items()}
            raise OperationRefused(reasons) from refusal
        except BackendUnavailable:
            self._tracker.expect_nothing()
            raise

    def _expect(self, payload: object) -> None:
        """Announce to the port tracker what the driver itself is about to change."""
        if isinstance(payload, RemovePort):
            self._tracker.expect(payload.name, None)
        if not isinstance(payload, SetColumns):
            return
        if payload.table is OvsdbTable.BRIDGE:
            self._tracker.expect_records(payload.keys.get("external_ids", {}))
            return
        port = self._ovsdb.port(payload.record)
        if port is not None and payload.table is OvsdbTable.PORT:
            self._tracker.expect(port.name, _after(port, payload))
        elif port is not None and payload.table is OvsdbTable.INTERFACE:
            self._tracker.expect(port.name, _with_options(port, payload))

    def _commit(self, stage: Stage) -> None:
        self._check_numbers()
        bridge = bridge_of(stage.backend)
        try:
            self._apply_flows(bridge)
        except OperationRefused as refusal:
            raise refused_operations(refusal, stage.operations) from refusal
        self._done.add(bridge)

    def _check_numbers(self) -> None:
        """Check the port numbers that the flows rely on.

        :raises OperationRefused: the switch gave others; a new plan uses those.
        """
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
    """Return whether later stages need the switch to have handled *payload*.

    They do not need the row of a port: its tag only shows people and tools what the flows do.
    """
    if not isinstance(payload, SetColumns) or payload.table is OvsdbTable.INTERFACE:
        return True
    return payload.table is OvsdbTable.BRIDGE and bool(payload.values)


def _after(port: OvsdbPort, change: SetColumns) -> OvsdbPort:
    config = dict(port.other_config)
    for key, value in change.keys.get("other_config", {}).items():
        config.pop(key, None)
        if value is not None:
            config[key] = value
    columns: dict[str, Any] = dict(change.values)
    return evolve(port, other_config=config, **columns)


def _with_options(port: OvsdbPort, change: SetColumns) -> OvsdbPort:
    options = dict(port.interface.options)
    for key, value in change.keys.get("options", {}).items():
        options.pop(key, None)
        if value is not None:
            options[key] = value
    return evolve(port, interfaces=(evolve(port.interface, options=options),))
