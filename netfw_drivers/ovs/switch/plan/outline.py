"""Planner of the switch driver: rows and flows that turn the observed into the desired state.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import TypeVar, cast

from attrs import evolve, field, frozen

from netfw.drivers.values.keys import ExtensionKey, HostKey, NetworkKey, PortKey
from netfw.drivers.values.switch_values import (
    Endpoint,
    FloodKey,
    ForwardingKey,
    SwitchKey,
    SwitchValue,
    Tunnel,
)
from netfw.errors import NetfwError
from netfw.ovs.openflow.flow_cache import FlowCache
from netfw.ovs.openflow.flow_diff import EVERYBODY, CookieSpace
from netfw.ovs.ovsdb.operations import OvsdbTable, SetColumns
from netfw.ovs.ovsdb.values import Bridge
from netfw.plan import Update
from netfw_drivers.ovs.pipeline.br_int import PlannedPort
from netfw_drivers.ovs.pipeline.tables import SPACE_MASK, SWITCH_SPACE
from netfw_drivers.ovs.switch.plan.bandwidth_guarantees import GuaranteePlan
from netfw_drivers.ovs.switch.plan.bridges import plan_bridges
from netfw_drivers.ovs.switch.plan.flow_groups import (
    ADDED,
    FlowGroupBuilder,
    FlowGroupChanges,
    owner_of,
    router_owners,
)
from netfw_drivers.ovs.switch.plan.flow_requests import BridgeFlowPlan, FlowRequest
from netfw_drivers.ovs.switch.plan.guarantee_overlay import GuaranteeOverlay
from netfw_drivers.ovs.switch.plan.observed import EXTENSION_MARK, Observed
from netfw_drivers.ovs.switch.plan.ovsdb_changes import OvsdbChanges, row
from netfw_drivers.ovs.switch.plan.ports import PortPlanner
from netfw_drivers.ovs.switch.plan.recovery import recorded_keys
from netfw_drivers.ovs.switch.plan.routing_records import is_record, record_changes, records_of
from netfw_drivers.ovs.switch.plan.settings import Settings
from netfw_drivers.ovs.switch.plan.state import (
    ROUTED_NETWORKS,
    DomainMembersOverlay,
    SwitchStateOverlay,
    carried_by,
)
from netfw_drivers.ovs.switch.plan.tunnels import drop_tunnels, plan_listeners, plan_tunnels
from netfw_drivers.ovs.switch.plan.validation import refusals
from netfw_drivers.ovs.switch.plan.vlan_assignment import VlanAssignment

SwitchUpdate = Update[SwitchKey, SwitchValue]
OURS = CookieSpace(SWITCH_SPACE, SPACE_MASK)
K = TypeVar("K", bound=SwitchKey)


@frozen
class PlanOutline:
    """Rows and flows to change, and the state after that."""

    draft: OvsdbChanges
    groups: FlowGroupChanges
    put: Mapping[SwitchKey, SwitchValue]
    drop: frozenset[SwitchKey]
    kept: frozenset[object]
    """Owners whose flows stay as they are."""
    live: Mapping[PortKey, PlannedPort]
    concerned: Set[PortKey]
    """The ports that were planned; `live` are those of them that take part in their networks."""
    remove_unowned: bool
    """Flows with our cookie that no key needs are removed."""
    unknown_flows: bool
    """Unwanted flows stay: they cannot be distinguished from the flows of keys that are kept."""
    orphans: frozenset[str]
    """Extensions that are dropped without a record of their flows."""
    guarantees: GuaranteePlan
    flows: Mapping[str, BridgeFlowPlan] = field(factory=dict)
    """By bridge."""

    def refused_flows(self) -> dict[SwitchKey, NetfwError]:
        """Return the keys that want flows which another owner has."""
        return {
            cast(SwitchKey, owner[1]): conflict
            for planned in self.flows.values()
            for owner, conflict in planned.flows.refused.items()
            if isinstance(owner, tuple)
        }


def outline(
    update: SwitchUpdate, observed: Observed, settings: Settings, *, with_flows: bool = False
) -> PlanOutline:
    """Plan rows and groups of flows, and with *with_flows* what to change on each bridge.

    A key that is refused stays as it is on the machine.  That may refuse others, so planning is
    repeated without it until no more keys are refused.
    """
    refused = refusals(update.put, settings, observed.layout)
    while True:
        planned = _Planner(update, observed, settings, refused).outline()
        more = {key: why for key, why in planned.draft.refused.items() if key not in refused}
        if with_flows and not more:
            planned = evolve(planned, flows=_plan_flows(planned, observed, settings))
            more = planned.refused_flows()
        if not more:
            planned.draft.refused.update(refused)
            return planned
        refused |= more


def _plan_flows(
    planned: PlanOutline, observed: Observed, settings: Settings
) -> dict[str, BridgeFlowPlan]:
    flows: dict[str, BridgeFlowPlan] = {}
    for bridge in settings.bridges:
        if bridge not in planned.groups.put and bridge not in planned.groups.drop:
            continue
        if bridge not in observed.snapshot.bridges and bridge not in settings.created_bridges:
            continue
        everything = EVERYBODY if bridge in observed.flush else OURS
        request = FlowRequest(
            put=planned.groups.put.get(bridge, {}),
            drop=planned.groups.drop.get(bridge, ()),
            complete=everything if planned.remove_unowned else None,
            keep=planned.kept,
            erase=_orphaned_flows(planned, observed) if bridge == settings.integration else (),
        )
        current = observed.flows.get(bridge, FlowCache())
        flows[bridge] = BridgeFlowPlan(request, request.plan(current))
    return flows


def _orphaned_flows(planned: PlanOutline, observed: Observed) -> tuple[CookieSpace, ...]:
    """Return the flows of extensions that are dropped before their flows were recorded."""
    grants = observed.layout.grants
    orphaned = sorted(planned.orphans & grants.keys())
    return tuple(CookieSpace(grants[each].cookie, grants[each].cookie_mask) for each in orphaned)


class _Planner:
    """Plans one update, given the keys that are refused."""

    def __init__(
        self,
        update: SwitchUpdate,
        observed: Observed,
        settings: Settings,
        refused: Mapping[SwitchKey, NetfwError],
    ) -> None:
        self._update, self._observed, self._settings = update, observed, settings
        self._recorded = recorded_keys(observed, settings) if update.complete else frozenset()
        self._keep = update.keep | refused.keys()
        self._put = {key: update.put[key] for key in self._ranked() if key not in refused}
        self._drop = self._dropped_keys()
        self._wanted = SwitchStateOverlay(observed.state, self._put, self._drop)
        self._draft = OvsdbChanges(observed.snapshot)

    def outline(self) -> PlanOutline:
        self._extensions()
        numbering = self._networks()
        records = {**self._marks(), **numbering.records, **self._routing_records()}
        plan_bridges(self._draft, self._settings, records, self._observed.links)
        plan_listeners(self._draft, self._settings)
        endpoints = _of(self._put, Endpoint)
        tunnels = {key: self._wanted.get(key, Tunnel) for key in endpoints}
        plan_tunnels(self._draft, self._settings, {k: v for k, v in tunnels.items() if v})
        drop_tunnels(self._draft, _of(self._drop, Endpoint))
        ports = PortPlanner(
            self._draft, self._observed, self._wanted, numbering.numbers, self._settings
        )
        concerned = self._ports()
        ports.plan(concerned)
        live = {key: port for key, port in ports.wired.items() if port.live}
        guarantees = self._guarantees(ports.wired, concerned)
        groups = self._flows(numbering, ports, concerned, live)
        unknown_flows = self._update.complete and not self._knows_kept()
        if unknown_flows:
            self._draft.release.clear()  # unknown flows may use those numbers
        return PlanOutline(
            self._draft,
            groups,
            self._put,
            self._drop,
            self._kept_owners(),
            live,
            concerned.keys(),
            self._update.complete and not unknown_flows,
            unknown_flows,
            frozenset(
                key.owner
                for key in _of(self._drop, ExtensionKey)
                if key not in self._observed.state.values
            ),
            guarantees,
        )

    def _kept_owners(self) -> frozenset[object]:
        known = self._observed.state.values
        return frozenset(owner for key in self._keep for owner in _owners(key, known.get(key)))

    def _ranked(self) -> Iterable[SwitchKey]:
        """Return the keys to put; those on the machine come first and win conflicts."""
        known = self._observed.state.values
        return sorted(self._update.put, key=lambda key: not (key in known or key in self._recorded))

    def _dropped_keys(self) -> frozenset[SwitchKey]:
        """Return the keys that this update removes."""
        drop = {key for key in self._update.drop if key not in self._keep}
        if self._update.complete:
            everything = self._observed.state.values.keys() | self._recorded
            drop |= everything - self._put.keys() - self._keep
        return frozenset(drop)

    def _knows_kept(self) -> bool:
        """Return whether the flows of kept keys are known and can be distinguished from garbage."""
        unknown = self._keep - self._observed.state.values.keys()
        return not unknown & self._recorded

    def _networks(self) -> VlanAssignment:
        numbering = VlanAssignment(self._observed, self._wanted, self._settings.integration)
        numbering.release(self._draft, sorted(_of(self._drop, NetworkKey), key=str))
        numbering.assign(self._draft, _of(self._put, NetworkKey))
        if self._update.complete and not self._keep & self._recorded:
            numbering.tidy(self._draft)  # flows that are kept may use such a number
        return numbering

    def _changed_networks(self) -> list[NetworkKey]:
        """Return the networks whose ports and entries have to be planned again."""
        return [
            key
            for key in (*_of(self._put, NetworkKey), *_of(self._drop, NetworkKey))
            if self._update.complete or self._put.get(key) != self._wanted.before(key)
        ]

    def _ports(self) -> dict[PortKey, None]:
        concerned = dict.fromkeys([*_of(self._put, PortKey), *_of(self._drop, PortKey)])
        for key in self._changed_networks():
            concerned.update(dict.fromkeys(sorted(self._wanted.ports(key.network), key=str)))
        for parent in tuple(concerned):
            concerned.update(dict.fromkeys(sorted(self._wanted.sub_ports(parent.port), key=str)))
        return {key: None for key in concerned if key not in self._keep}

    def _flows(
        self,
        numbering: VlanAssignment,
        ports: PortPlanner,
        concerned: Mapping[PortKey, None],
        live: Mapping[PortKey, PlannedPort],
    ) -> FlowGroupChanges:
        flows = FlowGroupBuilder(self._draft, self._settings, self._wanted, numbering.numbers)
        flows.base(self._observed.layout)
        for key in concerned:
            flows.port(key, ports.wired.get(key), self._observed.layout)
        membership = DomainMembersOverlay(self._observed.members, live, concerned.keys())
        chunks = membership.everything() if self._update.complete else membership.touched()
        flows.members(membership, chunks, self._observed.layout)
        if self._settings.has_tunnels:
            for endpoint in self._endpoints():
                flows.tunnel(endpoint)
            for entry in self._forwardings():
                flows.forwarding(entry)
            for flood in _of(self._put, FloodKey):
                flows.flood(flood, flood.network, flood.endpoint)
        for network in self._flooding_networks():
            flows.network(network)
        for network in self._routed_networks():
            flows.routers(network)
        for host in self._entries(HostKey):
            flows.host(host)
        return flows.groups

    def _guarantees(
        self, wired: Mapping[PortKey, PlannedPort], concerned: Mapping[PortKey, None]
    ) -> GuaranteePlan:
        overlay = GuaranteeOverlay(self._observed, self._wanted, self._settings)
        kept = _of(self._keep, PortKey) if self._update.complete else None
        planned = overlay.plan(wired, concerned.keys(), kept)
        for key, why in planned.refused.items():
            self._draft.refused[key] = why
        return planned

    def _endpoints(self) -> Set[Endpoint]:
        return {*_of(self._put, Endpoint), *_of(self._drop, Endpoint)}

    def _entries(self, kind: type[K]) -> Iterable[K]:
        """Return the entries of the update, and those whose network or tunnel changed."""
        found = set[K]()
        for key in self._changed_networks():
            found |= {*_of(self._wanted.affected(key.network), kind)}
        for endpoint in self._endpoints():
            found |= {*_of(self._wanted.affected(endpoint), kind)}
        return self._requested_first(found, kind)

    def _forwardings(self) -> Iterable[ForwardingKey]:
        """Return the forwarding entries to plan, and those that share an address with them."""
        entries = dict.fromkeys(self._entries(ForwardingKey))
        for key in list(entries):
            rivals = _of(self._wanted.rivals(key), ForwardingKey)
            entries |= dict.fromkeys(sorted(rivals, key=str))
        return [key for key in entries if key not in self._keep]

    def _flooding_networks(self) -> Iterable[NetworkKey]:
        """Return the networks that changed, or that flood into a tunnel that changed."""
        found = {NetworkKey(key.network) for key in self._entries(FloodKey)}
        for endpoint in self._endpoints():
            found |= {*_of(self._wanted.affected(carried_by(endpoint.type)), NetworkKey)}
        return self._requested_first(found, NetworkKey)

    def _routed_networks(self) -> Iterable[NetworkKey]:
        """Return the networks of the update; all with routers if the MAC of this host changes."""
        found = self._wanted.affected(ROUTED_NETWORKS) if self._wanted.own_mac_changes() else ()
        return self._requested_first({*_of(found, NetworkKey)}, NetworkKey)

    def _requested_first(self, others: Set[K], kind: type[K]) -> Iterable[K]:
        """Return the keys of the update, then *others*, in the same order in every run."""
        requested = dict.fromkeys([*_of(self._put, kind), *_of(self._drop, kind)])
        rest = sorted(others - requested.keys() - self._keep, key=str)
        return [*(key for key in requested if key not in self._keep), *rest]

    def _extensions(self) -> None:
        """Record on ``br-int`` which extensions have flows that belong to no port."""
        bridge = self._observed.snapshot.bridges.get(self._settings.integration)
        if bridge is None:
            return
        marks = dict.fromkeys(key.owner for key in _of(self._drop, ExtensionKey))
        want = {**{EXTENSION_MARK + owner: None for owner in marks}, **self._marks()}
        for name, value in want.items():
            before = bridge.external_ids.get(name)
            if before != value:
                change = SetColumns(
                    table=OvsdbTable.BRIDGE,
                    record=bridge.name,
                    keys={"external_ids": {name: value}},
                    expect={name: before},
                )
                key = ExtensionKey(name.removeprefix(EXTENSION_MARK))
                self._draft.prepare.append(row(change, [key]))

    def _routing_records(self) -> dict[str, str]:
        """Record hosts and router interfaces on ``br-int``; return the records of the update."""
        wanted: dict[str, str] = {}
        bridge = self._observed.snapshot.bridges.get(self._settings.integration)
        for key in (*self._put, *self._drop):
            before, after = (
                records_of(key, value)
                for value in (self._wanted.before(key), self._wanted.values.get(key))
            )
            wanted |= after
            if bridge is not None and (before or after):
                self._record(bridge, [key], {} if self._update.complete else before, after)
        if bridge is not None and self._update.complete:
            kept = (records_of(key, self._wanted.values.get(key)) for key in self._keep)
            known = wanted.keys() | {name for records in kept for name in records}
            left = {name for name in bridge.external_ids if is_record(name)} - known
            self._record(bridge, (), dict.fromkeys(sorted(left), ""), {})
        return wanted

    def _record(
        self,
        bridge: Bridge,
        keys: Iterable[SwitchKey],
        before: Mapping[str, str],
        after: Mapping[str, str],
    ) -> None:
        written, removed = record_changes(bridge.external_ids, before, after)
        for change, stage in ((written, self._draft.prepare), (removed, self._draft.release)):
            if change:
                columns = SetColumns(
                    table=OvsdbTable.BRIDGE,
                    record=bridge.name,
                    keys={"external_ids": change},
                    expect={name: bridge.external_ids.get(name) for name in change},
                )
                stage.append(row(columns, keys))

    def _marks(self) -> dict[str, str]:
        return {EXTENSION_MARK + key.owner: "1" for key in _of(self._put, ExtensionKey)}


def _owners(key: SwitchKey, value: SwitchValue | None) -> Iterable[object]:
    """Yield the owners whose flows belong to *key* alone, which has *value* now."""
    yield owner_of(key)
    if isinstance(key, PortKey):
        yield owner_of(key, ADDED)
    elif isinstance(key, NetworkKey):
        yield from router_owners(key, value).values()


def _of(keys: Iterable[SwitchKey], kind: type[K]) -> Iterable[K]:
    return [key for key in keys if isinstance(key, kind)]
