"""The state that an earlier run left, as far as the machine records it.  Pure."""

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
    SwitchKey,
    SwitchValue,
    Tunnel,
    Wiring,
    endpoints_problem,
)
from netfw.model.values.address import IpAddress, Mac
from netfw.model.values.ids import NetworkId
from netfw.ovs.openflow.encode import Key, State, cookie_of, decode_match
from netfw.ovs.openflow.flow_inspection import output_ports, written_eth_src
from netfw.ovs.ovsdb.values import OvsdbPort
from netfw_drivers.ovs.common.local_vlans import (
    NET_UUID,
)
from netfw_drivers.ovs.common.ofport import ofport_of
from netfw_drivers.ovs.pipeline.tables import COOKIE
from netfw_drivers.ovs.pipeline.tunnel_tables import FLOOD, RESPONDER
from netfw_drivers.ovs.switch.plan.observed import (
    ATTACHED_MAC,
    EXTENSION_MARK,
    MESH_MARK,
    TUNNEL_MARK,
    Observed,
    endpoint_of,
    is_recorded,
)
from netfw_drivers.ovs.switch.plan.routing_records import recorded_hosts, recorded_routers
from netfw_drivers.ovs.switch.plan.settings import Settings
from netfw_drivers.ovs.switch.plan.sub_ports import (
    sub_port_of_end,
    subport_of,
)


def recorded_ports(observed: Observed) -> set[PortKey]:
    """Return the ports that have a record of being wired, or of being dead."""
    return {
        PortKey(port_id)
        for port_id, ports in observed.plugged.items()
        if any(is_recorded(port) or subport_of(port) is not None for port in ports)
    }


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


def _wiring(port: OvsdbPort, observed: Observed) -> Wiring | None:
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


def _dead(port: OvsdbPort, mac: str) -> Wiring | None:
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
