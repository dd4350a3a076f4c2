"""Ports of this host: their rows, what they wait for, and the state an earlier run left.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address
from uuid import UUID

from attrs import evolve

from netfw.drivers.values.keys import ExtensionKey, NetworkKey, PortKey
from netfw.drivers.values.switch_values import (
    Admission,
    Endpoint,
    Flood,
    FloodKey,
    Forwarding,
    ForwardingKey,
    LocalNetwork,
    RouterInterface,
    SwitchKey,
    SwitchValue,
    Tunnel,
    Wiring,
    endpoints_problem,
)
from netfw.errors import InvalidInput
from netfw.model.segment import Segment
from netfw.model.values.address import IpAddress, Mac
from netfw.model.values.ids import NetworkId
from netfw.ovs.openflow.decode import output_ports, written_eth_src
from netfw.ovs.openflow.encode import Key, State, cookie_of, decode_match
from netfw.ovs.ovsdb.operations import SetColumns, Table, Value
from netfw.ovs.ovsdb.values import IFACE_ID, Port
from netfw.plan import Operation
from netfw_drivers.ovs.common.local_vlans import (
    DEAD_VLAN,
    NET_UUID,
    Domain,
    dead_record,
    no_record,
    port_record,
)
from netfw_drivers.ovs.common.ofport import ofport_of
from netfw_drivers.ovs.pipeline.br_int import PlannedPort, PlannedSubport
from netfw_drivers.ovs.pipeline.distributed_routing import gateway_mac
from netfw_drivers.ovs.pipeline.tables import COOKIE
from netfw_drivers.ovs.pipeline.tunnel_tables import FLOOD, RESPONDER
from netfw_drivers.ovs.switch.plan.observed import (
    ATTACHED_MAC,
    EXTENSION_MARK,
    MESH_MARK,
    PARKED,
    TUNNEL_MARK,
    Observed,
    by_rank,
    endpoint_of,
    has_tag,
    is_recorded,
    port_id_of,
)
from netfw_drivers.ovs.switch.plan.ovsdb_changes import OvsdbChanges, differing, row
from netfw_drivers.ovs.switch.plan.routing_records import recorded_hosts, recorded_routers
from netfw_drivers.ovs.switch.plan.settings import Settings
from netfw_drivers.ovs.switch.plan.state import SwitchStateOverlay
from netfw_drivers.ovs.switch.plan.sub_ports import (
    drop_pair,
    pair_conflict,
    plan_pair,
    sub_port_of_end,
    subport_of,
    trunk_end_name,
)

Row = tuple[Mapping[str, str | None], int]
"""The record of a port in ``other_config``, and its VLAN."""
_DEAD: Row = (no_record(), DEAD_VLAN)


class Ports:
    """Plans ports one by one; ``wired`` has those that get flows."""

    def __init__(
        self,
        draft: OvsdbChanges,
        observed: Observed,
        wanted: SwitchStateOverlay,
        numbers: Mapping[Domain, int],
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

    def _devices(self, key: PortKey, wiring: Wiring) -> tuple[Port, ...]:
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
        port: Port,
        wiring: Wiring,
        segment: Segment,
        routers: frozenset[RouterInterface],
    ) -> None:
        """Plan the row and the flows of the device of *key*, or what it waits for."""
        domain = Domain(wiring.network, segment.id)
        vlan = self._numbers.get(domain)
        number = ofport_of(port)
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
        sends_from_any = wiring.open and wiring.guard is None and not wiring.filtered
        self.wired[key] = PlannedPort(
            domain=domain,
            number=number,
            vlan=vlan,
            mac=wiring.mac,
            guard=wiring.guard,
            filtered=wiring.filtered,
            open=_is_open(wiring),
            mac_limit=self._settings.max_macs_per_port if sends_from_any else 0,
            shared_mac=wiring.shared_mac,
            router=any(router.port == key.port for router in routers),
            gateway=gateway_mac(routers, wiring.addresses) if len(routers) > 1 else None,
            tunnelled=bool(routers) and segment.provider.network_type.is_tunnel,
            live=live,
            sub_port=sub_port,
        )
        self._prepare(key, port, port_record(segment, vlan), vlan)

    def _is_live(self, port: Port, segment: Segment, vlan: int, number: int) -> bool:
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

    def _wait(self, key: PortKey, port: Port, why: str, row: Row = _DEAD) -> None:
        """Record what a port waits for; it stays dead until then."""
        self._draft.waiting[key] = why
        self._prepare(key, port, *row)

    def _wait_for_number(self, key: PortKey, port: Port, wiring: Wiring, row: Row) -> None:
        """Let a port wait for its number; without one it has no flows, and nothing passes.

        The row of a live port is written already.  That of a port on hold is not: by its record,
        and by flows of the port that had its number before, it would seem to be live.
        """
        why = port.interface.error or "the switch has not numbered its device yet"
        self._wait(key, port, why, row if wiring.admission is Admission.LIVE else _DEAD)

    def _prepare(
        self, key: PortKey, port: Port, record: Mapping[str, str | None], vlan: int
    ) -> None:
        values = {} if has_tag(port, vlan) else {**PARKED, "tag": vlan}
        keys = differing(port.other_config, record)
        if values or keys:
            self._draft.prepare.append(_change(key, port, values, keys))


def recorded_ports(observed: Observed) -> set[PortKey]:
    """Return the ports that have a record of being wired, or of being dead."""
    return {
        PortKey(port_id)
        for port_id, ports in observed.plugged.items()
        if any(is_recorded(port) or subport_of(port) is not None for port in ports)
    }


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
    key: PortKey, port: Port, values: Mapping[str, Value], record: Mapping[str, str | None]
) -> Operation:
    change = SetColumns(
        table=Table.PORT,
        record=port.name,
        values=values,
        keys={"other_config": record} if record else {},
        expect={IFACE_ID: str(port_id_of(port) or "")},
    )
    return row(change, [key])


def recorded_keys(observed: Observed, settings: Settings) -> set[SwitchKey]:
    """Return the keys that the rows of the database record."""
    found: set[SwitchKey] = set(recorded_ports(observed))
    found |= {NetworkKey(network) for network in observed.vlans.networks}
    for port in observed.snapshot.ports.values():
        endpoint = endpoint_of(port) if port.bridge == settings.tunnel else None
        if endpoint is not None:
            found.add(endpoint)
        if (sub_port := sub_port_of_end(port)) is not None:
            found.add(PortKey(sub_port))
    bridge = observed.snapshot.bridges.get(settings.integration)
    found |= recorded_hosts(bridge.external_ids if bridge is not None else {}).keys()
    for name in bridge.external_ids if bridge is not None else ():
        if name.startswith(EXTENSION_MARK):
            found.add(ExtensionKey(name.removeprefix(EXTENSION_MARK)))
    return found


def recover_entries(
    flows: Collection[tuple[Key, State]], observed: Observed
) -> dict[SwitchKey, SwitchValue]:
    """Return the population entries, read from the *flows* that forward, flood and answer."""
    networks = {vlan: domain.network for domain, vlan in observed.vlans.numbers.items()}
    peers, meshed = _peers(observed)
    found: dict[SwitchKey, SwitchValue] = {}
    for key, state in flows:
        match = decode_match(key[3:])
        vlan, mac = match.get("vlan"), match.get("eth_dst")
        network = networks.get(vlan[0] & 0xFFF) if vlan is not None else None
        if network is None or cookie_of(state) != COOKIE:
            continue
        outputs = [peers[number] for number in output_ports(state) if number in peers]
        if key[0] == FLOOD.number:
            found |= {FloodKey(network, peer): Flood() for peer in outputs if peer not in meshed}
        elif mac is not None and endpoints_problem(outputs) is None:
            # A shared MAC has flows to each endpoint alone, too.
            forwarding = ForwardingKey(network, _mac(mac[0]))
            known = found.get(forwarding, Forwarding(frozenset(outputs)))
            assert isinstance(known, Forwarding)
            found[forwarding] = Forwarding(known.endpoints.union(outputs))
    for entry, addresses in _answered(flows, networks).items():
        answering = found.get(entry)
        if isinstance(answering, Forwarding):
            found[entry] = evolve(answering, addresses=frozenset(addresses))
    return found


def _answered(
    flows: Iterable[tuple[Key, State]], networks: Mapping[int, NetworkId]
) -> dict[SwitchKey, set[IpAddress]]:
    """Return the addresses that are answered for, by entry."""
    found: dict[SwitchKey, set[IpAddress]] = defaultdict(set)
    for key, state in flows:
        match, mac = decode_match(key[3:]), written_eth_src(state)
        vlan, four, six = match.get("vlan"), match.get("arp_tpa"), match.get("nd_target")
        if key[0] != RESPONDER.number or vlan is None or mac is None:
            continue
        network = networks.get(vlan[0] & 0xFFF)
        if network is not None and four is not None:
            found[ForwardingKey(network, _mac(mac))].add(IPv4Address(four[0]))
        elif network is not None and six is not None:
            found[ForwardingKey(network, _mac(mac))].add(IPv6Address(six[0]))
    return found


def recover_state(
    flows: Collection[tuple[Key, State]], observed: Observed, settings: Settings
) -> dict[SwitchKey, SwitchValue]:
    """Return the state of an earlier run, as far as the machine records it."""
    bridge = observed.snapshot.bridges.get(settings.integration)
    ids = bridge.external_ids if bridge is not None else {}
    found: dict[SwitchKey, SwitchValue] = {
        key: host for key, host in recorded_hosts(ids).items() if host is not None
    }
    routers = recorded_routers(ids)
    for network in observed.vlans.networks:
        segments = tuple(observed.vlans.segments[domain] for domain in observed.vlans.of(network))
        interfaces = routers.get(network, frozenset())
        found[NetworkKey(network)] = LocalNetwork(
            segments=segments, mtu=0, router_interfaces=interfaces
        )
    for port in observed.snapshot.ports.values():
        endpoint = endpoint_of(port) if port.bridge == settings.tunnel else None
        if endpoint is not None:
            host, mesh = port.external_ids[TUNNEL_MARK], MESH_MARK in port.external_ids
            found[endpoint] = Tunnel(host, mesh)
    for port_id, ports in observed.plugged.items():
        for port in ports:
            wiring = _wiring(port, observed)
            if wiring is not None:
                found[PortKey(port_id)] = wiring
    return {**found, **recover_entries(flows, observed)}


def _wiring(port: Port, observed: Observed) -> Wiring | None:
    """Return the wiring of a port that stays as it is: on hold, or dead."""
    tag, mac = port.other_config.get("tag", ""), port.interface.external_ids.get(ATTACHED_MAC, "")
    if not tag and is_recorded(port):
        return _dead(port, mac)
    for domain, vlan in observed.vlans.numbers.items():
        if str(vlan) == tag and str(domain.network) == port.other_config.get(NET_UUID):
            try:
                return Wiring(
                    network=domain.network,
                    mac=mac,
                    admission=Admission.HOLD,
                    segment=domain.segment,
                    subport=subport_of(port),
                )
            except ValueError:
                return None
    return None


def _dead(port: Port, mac: str) -> Wiring | None:
    try:
        network = NetworkId(UUID(port.other_config[NET_UUID]))
        return Wiring(network=network, mac=mac, admission=Admission.DEAD, subport=subport_of(port))
    except ValueError:
        return None


def _peers(observed: Observed) -> tuple[dict[int, Endpoint], set[Endpoint]]:
    """Return the far ends by tunnel number, and those that all networks flood to."""
    peers: dict[int, Endpoint] = {}
    meshed: set[Endpoint] = set()
    for port in observed.snapshot.ports.values():
        endpoint, number = endpoint_of(port), ofport_of(port)
        if endpoint is not None and number is not None:
            peers[number] = endpoint
            if MESH_MARK in port.external_ids:
                meshed.add(endpoint)
    return peers, meshed


def _mac(number: int) -> Mac:
    return Mac(":".join(f"{byte:02x}" for byte in number.to_bytes(6)))
