"""OvsSwitchDriver: joins ports to their networks by Open vSwitch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, ClassVar, Self
from uuid import UUID

from attrs import evolve
from oslo_config import cfg

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.reconciler import Checkpoint, Reconciler
from netfw.drivers.switch import SwitchCapability, SwitchDriver
from netfw.drivers.values.events import Event, FeedLost, KeysChanged, Sink
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest
from netfw.drivers.values.switch_values import (
    Endpoint,
    SwitchDevice,
    SwitchFacts,
    SwitchKey,
    SwitchValue,
)
from netfw.errors import BackendUnavailable, ConfigError, NetfwError
from netfw.flows import Pipeline
from netfw.linux.tc.traffic_control import traffic_control_problem
from netfw.linux.tc.values import DeviceTraffic
from netfw.model.values.ids import PortId, SegmentId
from netfw.ovs.openflow import Drift
from netfw.ovs.openflow.encode import Key, State, encode_flows
from netfw.ovs.ovsdb.client import Ovsdb, share_ovsdb
from netfw.ovs.ovsdb.values import Snapshot
from netfw.plan import Outcome, Plan, Update
from netfw_drivers.ovs.common.bridge_flows import shared_flows
from netfw_drivers.ovs.common.local_vlans import BroadcastDomain, LocalVlans
from netfw_drivers.ovs.common.options import openflow_directory
from netfw_drivers.ovs.common.outage import connection_event
from netfw_drivers.ovs.pipeline.br_int import admission_key
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout
from netfw_drivers.ovs.pipeline.tables import INTEGRATION, PHYSICAL
from netfw_drivers.ovs.pipeline.tunnel_tables import FLOOD, RESPONDER, TUNNELS, UNICAST
from netfw_drivers.ovs.switch.bridge_locks import BridgeLocks
from netfw_drivers.ovs.switch.executor import SwitchExecutor
from netfw_drivers.ovs.switch.flow_mirrors import BridgeFlowMirrors, Connect
from netfw_drivers.ovs.switch.htb_mirror import HtbMirror
from netfw_drivers.ovs.switch.options import OPTIONS, settings_from
from netfw_drivers.ovs.switch.plan.bandwidth_guarantees import Guarantee, physical_devices
from netfw_drivers.ovs.switch.plan.bridges import speaks_openflow14
from netfw_drivers.ovs.switch.plan.flow_groups import BASE, SWITCH
from netfw_drivers.ovs.switch.plan.observed import Observed
from netfw_drivers.ovs.switch.plan.outline import OURS, SwitchUpdate, outline
from netfw_drivers.ovs.switch.plan.plan import SwitchPlan, plan_switch
from netfw_drivers.ovs.switch.plan.recovery import recorded_keys, recover_entries, recover_state
from netfw_drivers.ovs.switch.plan.settings import Settings
from netfw_drivers.ovs.switch.plan.state import DomainMembers, SwitchState
from netfw_drivers.ovs.switch.port_tracker import PortTracker
from netfw_drivers.ovs.switch.veth_links import VethLinks, shared_links

_CAPABILITIES = (
    HostCapability.PLAN,
    HostCapability.WATCH,
    SwitchCapability.TUNNELS,
    SwitchCapability.POPULATION,
    SwitchCapability.FLOWS,
    SwitchCapability.IN_SWITCH,
    SwitchCapability.DISTRIBUTED,
    SwitchCapability.SUB_PORTS,
)


class OvsSwitchDriver(SwitchDriver, Reconciler[SwitchKey, SwitchValue, Observed]):
    """Ports of ``br-int``, tunnels on ``br-tun``, and bridges that lead to physical networks.

    ``br-int`` and ``br-tun`` are the driver's own: it makes them, and every flow with its cookie
    there is its own.  Physical bridges must exist; the driver adds a link and its flows there.
    Other bridges are only watched.  A driver that changes anything holds the locks of all its
    bridges until it is closed: see `BridgeLocks`.
    """

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = OPTIONS

    def __init__(
        self,
        ovsdb: Ovsdb,
        settings: Settings,
        connect: Connect,
        links: VethLinks,
        *,
        drop_flows_on_start: bool = False,
        vhostuser_socket_dir: str | None = None,
    ) -> None:
        self._ovsdb, self._settings, self._links = ovsdb, settings, links
        self._vhostuser = vhostuser_socket_dir
        self._layout = ExtensionLayout()
        self._state = SwitchState()
        self._members = DomainMembers()
        self._traffic = HtbMirror()
        self._guarantees: Mapping[PortKey, Guarantee] = {}
        self._recovered = False
        self._vlans: tuple[object, LocalVlans] = (None, LocalVlans({}, {}))
        self._sinks: list[Sink] = []
        self._flush = frozenset(settings.created_bridges if drop_flows_on_start else ())
        self._mirrors = BridgeFlowMirrors(ovsdb, connect, self._on_drift, self._on_state)
        self._tracker = PortTracker(settings, self._publish)
        self._locks = BridgeLocks(ovsdb, settings, self._publish)
        self._cleanups: list[Callable[[], None]] = [
            self._locks.release,
            ovsdb.watch(self._tracker),
            ovsdb.watch(self._locks),
            self._mirrors.close,
        ]

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        remote, timeout = options["ovsdb_connection"], options["ovsdb_timeout"]
        directory = openflow_directory(options)
        return cls(
            share_ovsdb(host, remote, timeout, options["ovsdb_monitor_respawn_interval"]),
            settings_from(options),
            lambda bridge: shared_flows(host, directory, bridge, timeout),
            shared_links(host),
            drop_flows_on_start=options["drop_flows_on_start"],
            vhostuser_socket_dir=options["vhostuser_socket_dir"],
        )

    def describe(self) -> DriverInfo[HostCapability | SwitchCapability]:
        return DriverInfo("openvswitch", _CAPABILITIES)

    def problems(self) -> tuple[str, ...]:
        try:
            return tuple(self._config_problems())
        except NetfwError as error:
            return (str(error),)

    def close(self) -> None:
        while self._cleanups:
            self._cleanups.pop()()
        self._sinks.clear()

    def devices(self) -> Mapping[PortId, SwitchDevice]:
        self._ovsdb.bridge(self._settings.integration)
        self._tracker.listed()
        return self._tracker.devices

    def forwards(self) -> bool:
        bridge = self._settings.integration
        try:
            self._locks.acquire()  # without the locks, another process may put flows at any moment
            if not speaks_openflow14(self._ovsdb.bridge(bridge), self._settings):
                return True  # it is not there yet, and the filters would have no place
            return len(self._mirrors.current(bridge).mirror) > 0
        except BackendUnavailable:
            return True

    def host_facts(self) -> SwitchFacts:
        for problem in self._config_problems():
            raise ConfigError(problem)
        settings = self._settings
        local = settings.local_ip
        return SwitchFacts(
            physical_networks=frozenset(settings.mappings),
            mappings=dict(settings.mappings),
            bandwidths=dict(settings.bandwidths),
            endpoints=frozenset(Endpoint(kind, local) for kind in settings.tunnel_types)
            if local is not None
            else frozenset(),
            datapath_type=settings.datapath_type,
            bridge=settings.integration,
            vhostuser_socket_dir=self._vhostuser,
            features=frozenset(self._ovsdb.switch().iface_types),
            pipelines=self._pipelines(),
        )

    def _pipelines(self) -> Mapping[str, Pipeline]:
        settings = self._settings
        physical = dict.fromkeys(settings.mappings.values(), PHYSICAL)
        return {**physical, settings.integration: INTEGRATION, settings.tunnel: TUNNELS}

    def grant(self, request: GrantRequest) -> Grant:
        self._layout = self._layout.granted(request)
        return self._layout.grants[request.owner]

    def present(self) -> frozenset[SwitchKey]:
        observed = self.observe(None)
        return frozenset(recorded_keys(observed, self._settings) | self._entries(observed).keys())

    def converge(self, update: SwitchUpdate) -> Outcome[SwitchKey]:
        self._locks.acquire()  # the machine may change until the former owner has ended
        return super().converge(update) if update else Outcome()

    def observe(self, scope: SwitchUpdate | None) -> Observed:
        if scope is None:
            self._ovsdb.sync()
        snapshot = self._ovsdb.snapshot()
        self._tracker.listed()
        flows = {
            name: self._mirrors.current(name, audit=scope is None).mirror
            for name in self._settings.bridges
            if speaks_openflow14(snapshot.bridges.get(name), self._settings)
        }
        bridge = snapshot.bridges.get(self._settings.integration)
        observed = Observed(
            snapshot=snapshot,
            plugged=self._tracker.ports(),
            admission=self._admission,
            vlans=self._recorded(bridge.external_ids if bridge is not None else {}),
            layout=self._layout,
            state=self._state,
            members=self._members,
            links=self._links.read(self._settings.physical_ends),
            traffic=self._read_traffic(snapshot, audit=scope is None or scope.complete),
            guarantees=self._guarantees,
            flows=flows,
            flush=self._flush,
        )
        if not self._recovered and (scope is None or not scope.complete or scope.keep):
            self._recover(observed)
        return evolve(observed, recovered=self._recovered)

    def plan(self, update: SwitchUpdate, observed: Observed) -> Plan:
        return plan_switch(update, observed, self._settings) if update else Plan()

    def apply(self, plan: Plan, checkpoint: Checkpoint) -> None:
        if not isinstance(plan, SwitchPlan):
            return
        executor = SwitchExecutor(
            self._ovsdb,
            self._locks,
            self._tracker,
            self._mirrors,
            links=self._links,
            traffic=self._traffic,
            plan=plan,
        )
        for stage in plan.stages:
            executor.execute(stage)
            checkpoint(stage)
        executor.finish()
        self._state.commit(plan.outline.put, plan.outline.drop)
        self._members.commit(plan.outline.live, plan.outline.concerned)
        self._guarantees = plan.outline.guarantees.in_force
        if plan.outline.remove_unowned:
            self._flush = frozenset()
            self._recovered = True

    def watch(self, sink: Sink) -> None:
        self._sinks.append(sink)

    def _publish(self, event: Event) -> None:
        for sink in list(self._sinks):
            sink(event)

    def _on_state(self, bridge: str, up: bool) -> None:
        """Report that the switch was lost, or answers again: everything has to be observed."""
        self._publish(connection_event(bridge, up))

    def _on_drift(self, bridge: str, drift: Drift) -> None:
        """Report flows of ours that another process changed, and new ones that bear our cookie.

        Before the desired state is known, flows with our cookie are not reported.
        """
        if self._recovered and self._has_unknown_flows(bridge, drift):
            self._publish(FeedLost(f"{bridge} has flows with our cookie that are not wanted"))
        keys: set[object] = set()
        for owner in drift.owners:
            if isinstance(owner, tuple) and owner[0] == SWITCH:
                keys.update(self._concerned(owner))
        if BASE in keys:
            self._publish(FeedLost(f"{bridge} has lost flows that all ports need"))
        elif keys:
            self._publish(KeysChanged(f"another process changed their flows on {bridge}", keys))

    def _has_unknown_flows(self, bridge: str, drift: Drift) -> bool:
        """Return whether unknown flows with our cookie came; a complete update removes them."""
        mirror = self._mirrors.mirror(bridge)
        cookies = map(mirror.cookie, drift.unowned)
        return any(cookie is not None and cookie in OURS for cookie in cookies)

    def _concerned(self, owner: tuple[object, ...]) -> Iterable[object]:
        """Yield the keys to converge again, so that the flows of *owner* are repaired."""
        match owner:
            case (_, NetworkKey(network=network), UUID() as segment, *chunk):
                members = list(self._members.ports.items())
                domain = BroadcastDomain(network, SegmentId(segment))
                yield from (
                    key
                    for key, member in members
                    if member.domain == domain and chunk in ([], [member.chunk[1]])
                )
            case (_, key, *_):
                yield key

    def _admission(self, number: int) -> int | None:
        flows = self._mirrors.get(self._settings.integration)
        return None if flows is None else flows.mirror.cookie(admission_key(number))

    def _recover(self, observed: Observed) -> None:
        """Read from the machine what an earlier run applied, and which key each flow is for.

        A complete update does not need this; any other must leave alone what it does not name.
        """
        values = {**self._entries(observed, all_of_them=True)}
        planned = outline(Update(put=values), observed, self._settings)
        for bridge, groups in planned.groups.put.items():
            if bridge in self._mirrors:
                flows = {owner: encode_flows(group.make()) for owner, group in groups.items()}
                self._mirrors.mirror(bridge).adopt(flows)
        self._state.commit(planned.put, ())
        self._members.commit(planned.live, ())
        self._recovered = True

    def _entries(
        self, observed: Observed, *, all_of_them: bool = False
    ) -> dict[SwitchKey, SwitchValue]:
        """Return the values of population entries, or of everything, as the machine has them."""
        flows = self._mirrors.get(self._settings.tunnel)
        read: list[tuple[Key, State]] = []
        if flows is not None:
            read = [e for table in (UNICAST, FLOOD, RESPONDER) for e in flows.table(table.number)]
        if all_of_them:
            return recover_state(read, observed, self._settings)
        return recover_entries(read, observed)

    def _config_problems(self) -> list[str]:
        """Return the options that contradict the machine, each with what to do about it."""
        problems = []
        switch, settings = self._ovsdb.switch(), self._settings
        for network, bridge in settings.mappings.items():
            if self._ovsdb.bridge(bridge) is None:
                problems.append(
                    f"bridge_mappings: there is no bridge {bridge} for {network}: make it "
                    f"(ovs-vsctl add-br {bridge}), or change the mapping"
                )
        if switch.datapath_types and settings.datapath_type not in switch.datapath_types:
            known = ", ".join(sorted(switch.datapath_types))
            problems.append(
                f"datapath_type: the switch has no {settings.datapath_type}; it has {known}"
            )
        lacking = traffic_control_problem() if settings.bandwidths else None
        if lacking is not None:
            problems.append(
                "resource_provider_bandwidths: guarantees need HTB and filters by BPF (sch_htb, "
                f"cls_bpf) of the kernel, tc and unshare: {lacking}: load the modules, or leave "
                "the option empty"
            )
        return problems

    def _read_traffic(self, snapshot: Snapshot, *, audit: bool) -> dict[str, DeviceTraffic]:
        """Return the queueing disciplines of devices; without the option only at the start, to find
        what an earlier configuration has left."""
        if not self._settings.bandwidths and self._recovered:
            return {}
        devices = physical_devices(snapshot, self._settings)
        return self._traffic.read(chain.from_iterable(devices.values()), audit=audit)

    def _recorded(self, ids: Mapping[str, str]) -> LocalVlans:
        """Return the local VLANs; parse them only when the row has changed."""
        if self._vlans[0] is not ids:
            self._vlans = ids, LocalVlans.recorded(ids)
        return self._vlans[1]
