"""OvsFirewallDriver: filters ports inside Open vSwitch, by connection tracking and conjunctions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from oslo_config import cfg

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.firewall import (
    FilteredPort,
    FirewallCapability,
    FirewallDriver,
    FirewallKey,
    FirewallValue,
)
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.reconciler import Checkpoint, Reconciler
from netfw.drivers.values.events import Event, FeedLost, KeysChanged, Sink
from netfw.drivers.values.keys import PortKey
from netfw.errors import BackendUnavailable, NetfwError, OperationRefused
from netfw.ovs.openflow import Drift, FlowCache
from netfw.ovs.ovsdb.client import Ovsdb, share_ovsdb
from netfw.plan import Plan
from netfw_drivers.ovs.common.bridge_flows import BridgeFlows, shared_flows
from netfw_drivers.ovs.common.flow_operations import refused_operations
from netfw_drivers.ovs.common.options import SHARED_OPTIONS, openflow_directory
from netfw_drivers.ovs.common.outage import connection_event
from netfw_drivers.ovs.firewall.plan.changes import parts_of
from netfw_drivers.ovs.firewall.plan.ct_zones import CtZonePorts
from netfw_drivers.ovs.firewall.plan.plan import (
    CAPABILITIES,
    OURS,
    FirewallPlan,
    FirewallUpdate,
    Observed,
    plan_firewall,
)
from netfw_drivers.ovs.firewall.plan.recovery import RecoveredState
from netfw_drivers.ovs.firewall.plan.state import FirewallState
from netfw_drivers.ovs.firewall.switch_drift import DriftedOwners, OfportTracker

_OVERTAKEN = "planned before another plan was executed; plan again"


class OvsFirewallDriver(FirewallDriver, Reconciler[FirewallKey, FirewallValue, Observed]):
    """Filters ports of ``br-int`` by flows of its own cookie.

    The switch driver sends it the packets of ports that are wired as filtered; without its flows
    none of them passes.  It stores nothing but flows: numbers of policies and conjunctions are in
    notes beside what they mark.  One update is one bundle.
    """

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = SHARED_OPTIONS

    def __init__(
        self, ovsdb: Ovsdb, connect: Callable[[str], BridgeFlows], bridge: str = "br-int"
    ) -> None:
        self._ovsdb, self._connect, self._bridge = ovsdb, connect, bridge
        self._flows: BridgeFlows | None = None
        self._state = FirewallState()
        self._recovered = False
        self._revision = 0
        self._sinks: list[Sink] = []
        self._drifts = DriftedOwners()
        self._zones = CtZonePorts()
        self._ofports = OfportTracker(bridge, self._publish)
        self._cleanups: list[Callable[[], None]] = [ovsdb.watch(self._ofports)]

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        remote, timeout = options["ovsdb_connection"], options["ovsdb_timeout"]
        directory = openflow_directory(options)
        return cls(
            share_ovsdb(host, remote, timeout, options["ovsdb_monitor_respawn_interval"]),
            lambda bridge: shared_flows(host, directory, bridge, timeout),
            options["integration_bridge"],
        )

    def describe(self) -> DriverInfo[HostCapability | FirewallCapability]:
        return DriverInfo("openflow", CAPABILITIES)

    def problems(self) -> tuple[str, ...]:
        try:
            self._ovsdb.bridge(self._bridge)  # one that is not there is made by the switch driver
        except NetfwError as error:
            return (str(error),)
        return ()

    def close(self) -> None:
        while self._cleanups:
            self._cleanups.pop()()
        self._sinks.clear()

    def present(self) -> frozenset[FirewallKey]:
        self._ovsdb.sync()
        if self._ovsdb.bridge(self._bridge) is None:
            return frozenset()
        return frozenset(RecoveredState(self._current().space(OURS)).state.present())

    def observe(self, scope: FirewallUpdate | None) -> Observed:
        if scope is None:
            self._ovsdb.sync()
        absent = self._ovsdb.bridge(self._bridge) is None
        flows = None if absent else self._current(audit=scope is None)
        if flows is None:
            self._state, self._recovered = FirewallState(), False
            self._zones.recover(())
        elif not self._recovered:
            self._recover(flows)
        for key, value in scope.put.items() if scope is not None else ():
            if isinstance(key, PortKey) and isinstance(value, FilteredPort):
                self._ofports.expect(key, value.device)
        return Observed(
            bridge=self._bridge,
            ports=self._ovsdb.snapshot().ports,
            state=self._state,
            flows=FlowCache() if flows is None else flows.mirror,
            drifted=self._drifts.now(),
            revision=self._revision,
            absent=absent,
        )

    def plan(self, update: FirewallUpdate, observed: Observed) -> Plan:
        return plan_firewall(update, observed) if update else Plan()

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        if not isinstance(plan, FirewallPlan):
            return
        assert plan.draft is not None
        assert plan.flows is not None
        flows = self._current()
        if plan.absent or plan.revision != self._revision:
            raise OperationRefused({f"the filters of {self._bridge}": _OVERTAKEN})
        gone, dropped = frozenset(plan.draft.state.gone()), plan.dropped
        flows.flush_zones(self._zones.first_used(plan.zones, self._state.ports, gone))
        try:
            flows.mirror.apply(plan.flows)
        except OperationRefused as refusal:
            raise refused_operations(refusal, plan) from refusal
        except BackendUnavailable:
            self._recovered = False  # it is unknown what was done
            raise
        plan.draft.state.commit()
        self._revision += 1
        self._drifts.settle(parts_of([*plan.flows.holds, *plan.flows.gone]))
        self._zones.note(plan.zones, gone)
        for key in dropped:
            self._ofports.forget(key)
        for stage in plan.stages:
            checkpoint(stage)

    def watch(self, sink: Sink) -> None:
        self._sinks.append(sink)

    def _publish(self, event: Event) -> None:
        for sink in list(self._sinks):
            sink(event)

    def _on_drift(self, drift: Drift) -> None:
        """Report flows of ours that another process changed, and new ones that bear our cookie."""
        parts = frozenset(parts_of(drift.owners))
        self._drifts.add(parts)
        ports = frozenset(part for part in parts if isinstance(part, PortKey))
        if parts - ports or (self._recovered and self._has_unknown_flows(drift)):
            self._publish(
                FeedLost(f"another process changed what filters the ports of {self._bridge}")
            )
        elif ports:
            self._publish(
                KeysChanged(f"another process changed their filters on {self._bridge}", ports)
            )

    def _has_unknown_flows(self, drift: Drift) -> bool:
        """Return whether unknown flows with our cookie came; a complete update removes them."""
        assert self._flows is not None
        cookies = map(self._flows.mirror.cookie, drift.unowned)
        return any(cookie is not None and cookie in OURS for cookie in cookies)

    def _on_state(self, up: bool) -> None:
        self._publish(connection_event(self._bridge, up))

    def _recover(self, flows: BridgeFlows) -> None:
        """Read from the switch what an earlier run applied, and which owner each flow has."""
        recovered = RecoveredState(flows.space(OURS))
        flows.mirror.adopt(recovered.owned_flows())
        self._state, self._recovered = recovered.state, True
        self._zones.recover(self._state.ports)
        self._revision += 1

    def _current(self, *, audit: bool = False) -> BridgeFlows:
        """Return the flows of the bridge, once all of them are read.

        :raises BackendUnavailable: there is no such bridge, or the switch does not answer.
        """
        if self._ovsdb.bridge(self._bridge) is None:
            raise BackendUnavailable(
                f"there is no bridge {self._bridge} on the switch at {self._ovsdb.remote}: its "
                "switch driver makes it"
            )
        if self._flows is None:
            self._flows = self._connect(self._bridge)
            self._cleanups.append(self._flows.watch(self._on_drift, self._on_state))
            audit = False
        self._flows.mirror.wait_current()
        if audit:
            self._flows.mirror.audit()
            self._flows.mirror.wait_current()
            self._flows.wait_answer()  # by then the drift was reported
        return self._flows
