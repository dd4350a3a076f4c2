"""What the machine says that the switch driver holds.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address
from uuid import UUID

from netfw.drivers.keys import ExtensionKey, NetworkKey, PortKey
from netfw.drivers.switch_values import (
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
)
from netfw.model.address import IpAddress, Mac
from netfw.model.ids import NetworkId
from netfw.ovs.openflow.decode import output_ports, written_eth_src
from netfw.ovs.openflow.encode import Key, State, cookie_of, decode_match
from netfw.ovs.ovsdb.values import Port
from netfw_drivers.ovs.common.local_vlans import NET_UUID
from netfw_drivers.ovs.common.ofport import ofport_of
from netfw_drivers.ovs.pipeline.tables import COOKIE, FLOOD, RESPONDER
from netfw_drivers.ovs.switch.plan.observed import (
    ATTACHED_MAC,
    EXTENSION_MARK,
    MESH_MARK,
    TUNNEL_MARK,
    Observed,
    endpoint_of,
    is_recorded,
)
from netfw_drivers.ovs.switch.plan.ports import leftovers
from netfw_drivers.ovs.switch.plan.settings import Settings


def held(observed: Observed, settings: Settings) -> set[SwitchKey]:
    """What the rows of the database say that the driver has."""
    found: set[SwitchKey] = set(leftovers(observed))
    found |= {NetworkKey(network) for network in observed.vlans.networks}
    for port in observed.snapshot.ports.values():
        endpoint = endpoint_of(port) if port.bridge == settings.tunnel else None
        if endpoint is not None:
            found.add(endpoint)
    bridge = observed.snapshot.bridges.get(settings.integration)
    for name in bridge.external_ids if bridge is not None else ():
        if name.startswith(EXTENSION_MARK):
            found.add(ExtensionKey(name.removeprefix(EXTENSION_MARK)))
    return found


def entries_held(
    flows: Collection[tuple[Key, State]], observed: Observed
) -> dict[SwitchKey, SwitchValue]:
    """The entries of population, by the *flows* that forward, flood and answer."""
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
        elif mac is not None and outputs:
            found[ForwardingKey(network, _mac(mac[0]))] = Forwarding(outputs[0])
    for entry, addresses in _answered(flows, networks).items():
        known = found.get(entry)
        if isinstance(known, Forwarding):
            found[entry] = Forwarding(known.endpoint, frozenset(addresses))
    return found


def _answered(
    flows: Iterable[tuple[Key, State]], networks: Mapping[int, NetworkId]
) -> dict[SwitchKey, set[IpAddress]]:
    """The addresses that are answered for, by whose they are."""
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
    """What an earlier run was told, as far as the machine says it."""
    found: dict[SwitchKey, SwitchValue] = {}
    for network in observed.vlans.networks:
        segments = tuple(observed.vlans.segments[domain] for domain in observed.vlans.of(network))
        found[NetworkKey(network)] = LocalNetwork(segments=segments, mtu=0)
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
    return {**found, **entries_held(flows, observed)}


def _wiring(port: Port, observed: Observed) -> Wiring | None:
    """What a port was wired as, or that it was dead: it stays as it is."""
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
                )
            except ValueError:
                return None
    return None


def _dead(port: Port, mac: str) -> Wiring | None:
    try:
        network = NetworkId(UUID(port.other_config[NET_UUID]))
        return Wiring(network=network, mac=mac, admission=Admission.DEAD)
    except ValueError:
        return None


def _peers(observed: Observed) -> tuple[dict[int, Endpoint], set[Endpoint]]:
    """The far ends of tunnels by the tunnels' numbers, and those that all networks flood to."""
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
