"""Ports of this host: their rows, and what they wait for.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import evolve

from netfw.drivers.values.keys import PortKey
from netfw.drivers.values.switch_values import (
    Admission,
    LocalNetwork,
    RouterInterface,
    Wiring,
)
from netfw.errors import InvalidInput
from netfw.model.segment import Segment
from netfw.ovs.ovsdb.operations import OvsdbTable, SetColumns, Value
from netfw.ovs.ovsdb.values import IFACE_ID, OvsdbPort
from netfw.plan import Operation
from netfw_drivers.ovs.common.local_vlans import (
    DEAD_VLAN,
    BroadcastDomain,
    dead_record,
    no_record,
    port_record,
)
from netfw_drivers.ovs.common.ofport import ofport_of
from netfw_drivers.ovs.pipeline.br_int import PlannedPort, PlannedSubport
from netfw_drivers.ovs.pipeline.distributed_routing import gateway_mac
from netfw_drivers.ovs.switch.plan.observed import (
    PARKED,
    Observed,
    by_rank,
    has_tag,
    port_id_of,
)
from netfw_drivers.ovs.switch.plan.ovsdb_changes import OvsdbChanges, differing, row
from netfw_drivers.ovs.switch.plan.settings import Settings
from netfw_drivers.ovs.switch.plan.state import SwitchStateOverlay
from netfw_drivers.ovs.switch.plan.sub_ports import (
    drop_pair,
    pair_conflict,
    plan_pair,
    subport_of,
    trunk_end_name,
)

Row = tuple[Mapping[str, str | None], int]
"""The record of a port in ``other_config``, and its VLAN."""
_DEAD: Row = (no_record(), DEAD_VLAN)


class PortPlanner:
    """Plans ports one by one; ``wired`` has those that get flows."""

    def __init__(
        self,
        draft: OvsdbChanges,
        observed: Observed,
        wanted: SwitchStateOverlay,
        numbers: Mapping[BroadcastDomain, int],
        settings: Settings,
    ) -> None:
        self._draft, self._observed, self._wanted = draft, observed, wanted
        self._numbers, self._settings = numbers, settings
        self.wired: dict[PortKey, PlannedPort] = {}

    def plan(self, keys: Iterable[PortKey]) -> None:
        for key in keys:
            wiring = self._wanted.get(key, Wiring)
            if wiring is None:
                self._drop(key)
            else:
                self._put(key, wiring)

    def _put(self, key: PortKey, wiring: Wiring) -> None:
        ports = self._devices(key, wiring)
        if not ports:
            return
        port = ports[0]
        if wiring.admission is Admission.DEAD:
            self._prepare(key, port, dead_record(wiring.network), DEAD_VLAN)
            return
        network = self._wanted.network(wiring.network)
        if network is None:
            self._wait(key, port, f"network {wiring.network} is not on this host yet")
            return
        segment = _segment(wiring, network)
        if isinstance(segment, InvalidInput):
            self._draft.refused[key] = segment
        else:
            self._wire(key, port, wiring, segment, network.router_interfaces)

    def _devices(self, key: PortKey, wiring: Wiring) -> tuple[OvsdbPort, ...]:
        """Return the devices of a port, the one to wire first; the others are dead.

        The device of a sub-port is made by this plan, and can be wired by the next one.
        """
        every = by_rank(self._observed.plugged.get(key.port, ()))
        own = tuple(
            port for port in every if (subport_of(port) is None) is (wiring.subport is None)
        )
        for surplus in every:
            if surplus not in own[:1]:
                self._prepare(key, surplus, no_record(), DEAD_VLAN)
        if wiring.subport is None:
            drop_pair(self._draft, key)
            if not own:
                self._draft.waiting[key] = "no device was plugged for it yet"
            return own
        if wiring.admission is Admission.DEAD:
            return own
        bridge = self._settings.integration
        conflict = pair_conflict(self._draft.snapshot, key, bridge)
        if conflict is not None:
            self._draft.refused[key] = conflict
            return ()
        if not plan_pair(self._draft, key, wiring, bridge):
            self._draft.waiting[key] = "its device is being made"
            return ()
        return own

    def _sub_port(self, key: PortKey, wiring: Wiring) -> PlannedSubport | str | None:
        """Return how a sub-port reaches its parent, or what it waits for; ``None``: it is none."""
        if wiring.subport is None:
            return None
        end = self._draft.snapshot.ports.get(trunk_end_name(key.port))
        parents = by_rank(self._observed.plugged.get(wiring.subport.parent, ()))
        if not parents:
            return f"the device of its parent port {wiring.subport.parent} is not plugged yet"
        number, outer = ofport_of(parents[0]), None if end is None else ofport_of(end)
        if number is None or outer is None:
            return "the switch has not numbered the device of its parent port yet"
        return PlannedSubport(parent=number, end=outer, tag=wiring.subport.vlan)

    def _wire(
        self,
        key: PortKey,
        port: OvsdbPort,
        wiring: Wiring,
        segment: Segment,
        routers: frozenset[RouterInterface],
    ) -> None:
        """Plan the row and the flows of the device of *key*, or what it waits for."""
        domain = BroadcastDomain(wiring.network, segment.id)
        vlan, number = self._numbers.get(domain), ofport_of(port)
        if vlan is None:
            self._wait(key, port, "its network has no local VLAN")
            return
        if number is None:
            self._wait_for_number(key, port, wiring, (port_record(segment, vlan), vlan))
            return
        sub_port = self._sub_port(key, wiring)
        if isinstance(sub_port, str):
            self._wait(key, port, sub_port)
            return
        live = wiring.admission is Admission.LIVE or self._is_live(port, segment, vlan, number)
        wiring = self._as_it_is(wiring, number) if live else wiring
        self.wired[key] = PlannedPort(
            domain=domain,
            number=number,
            vlan=vlan,
            mac=wiring.mac,
            guard=wiring.guard,
            filtered=wiring.filtered,
            open=_is_open(wiring),
            mac_limit=self._mac_limit(wiring),
            shared_mac=wiring.shared_mac,
            router=any(router.port == key.port for router in routers),
            gateway=gateway_mac(routers, wiring.addresses) if len(routers) > 1 else None,
            tunnelled=bool(routers) and segment.provider.network_type.is_tunnel,
            live=live,
            sub_port=sub_port,
        )
        self._prepare(key, port, port_record(segment, vlan), vlan)

    def _mac_limit(self, wiring: Wiring) -> int:
        """Return how many MAC addresses a port may send from; 0: those of its wiring."""
        sends_from_any = wiring.open and wiring.guard is None and not wiring.filtered
        return self._settings.max_macs_per_port if sends_from_any else 0

    def _is_live(self, port: OvsdbPort, segment: Segment, vlan: int, number: int) -> bool:
        """Return whether a port takes part in this very network now."""
        same = not differing(port.other_config, port_record(segment, vlan))
        return same and self._observed.admitted(number)

    def _as_it_is(self, wiring: Wiring, number: int) -> Wiring:
        """Return *wiring*; that of a port on hold with what the machine has and may not change."""
        if wiring.admission is Admission.LIVE:
            return wiring
        guard = wiring.guard if self._observed.guarded(number) else None
        filtered, shared = self._observed.filtered(number), self._observed.shares_mac(number)
        return evolve(wiring, filtered=filtered, guard=guard, shared_mac=shared)

    def _drop(self, key: PortKey) -> None:
        drop_pair(self._draft, key)
        for port in self._observed.plugged.get(key.port, ()):
            if subport_of(port) is None:
                self._prepare(key, port, no_record(), DEAD_VLAN)

    def _wait(self, key: PortKey, port: OvsdbPort, why: str, row: Row = _DEAD) -> None:
        """Record what a port waits for; it stays dead until then."""
        self._draft.waiting[key] = why
        self._prepare(key, port, *row)

    def _wait_for_number(self, key: PortKey, port: OvsdbPort, wiring: Wiring, row: Row) -> None:
        """Let a port wait for its number; without one it has no flows, and nothing passes.

        The row of a live port is written already.  That of a port on hold is not: by its record,
        and by flows of the port that had its number before, it would seem to be live.
        """
        why = port.interface.error or "the switch has not numbered its device yet"
        self._wait(key, port, why, row if wiring.admission is Admission.LIVE else _DEAD)

    def _prepare(
        self, key: PortKey, port: OvsdbPort, record: Mapping[str, str | None], vlan: int
    ) -> None:
        values = {} if has_tag(port, vlan) else {**PARKED, "tag": vlan}
        keys = differing(port.other_config, record)
        if values or keys:
            self._draft.prepare.append(_change(key, port, values, keys))


def _is_open(wiring: Wiring) -> bool:
    """Return whether other MAC addresses than its own are behind a port."""
    return wiring.open or any(source.mac != wiring.mac for source in wiring.guard or ())


def _segment(wiring: Wiring, network: LocalNetwork) -> Segment | InvalidInput:
    """Return the segment of a port, or why it has none."""
    if wiring.segment is None and len(network.segments) == 1:
        return network.segments[0]
    for segment in network.segments:
        if segment.id == wiring.segment:
            return segment
    known = ", ".join(str(segment.id) for segment in network.segments)
    return InvalidInput({"segment": f"{wiring.segment} is not one of {known}"})


def _change(
    key: PortKey, port: OvsdbPort, values: Mapping[str, Value], record: Mapping[str, str | None]
) -> Operation:
    change = SetColumns(
        table=OvsdbTable.PORT,
        record=port.name,
        values=values,
        keys={"other_config": record} if record else {},
        expect={IFACE_ID: str(port_id_of(port) or "")},
    )
    return row(change, [key])
