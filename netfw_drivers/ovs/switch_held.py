"""What the machine says that the switch driver holds.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from netfw.drivers.keys import ExtensionKey, NetworkKey
from netfw.drivers.switch_values import Endpoint, FloodKey, ForwardingKey, SwitchKey
from netfw.model.address import Mac
from netfw.ovs.openflow.decode import output_ports
from netfw.ovs.openflow.encode import Key, State, cookie_of, decode_match
from netfw_drivers.ovs.pipeline import COOKIE, FLOOD
from netfw_drivers.ovs.switch_observed import (
    EXTENSION_MARK,
    MESH_MARK,
    Observed,
    endpoint_of,
    ofport_of,
)
from netfw_drivers.ovs.switch_ports import leftovers
from netfw_drivers.ovs.switch_settings import Settings


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


def entries_held(flows: Iterable[tuple[Key, State]], observed: Observed) -> set[SwitchKey]:
    """The entries of population, by the *flows* that forward and flood into tunnels."""
    networks = {vlan: domain.network for domain, vlan in observed.vlans.numbers.items()}
    peers = dict(_peers(observed))
    found: set[SwitchKey] = set()
    for key, state in flows:
        match = decode_match(key[3:])
        vlan, mac = match.get("vlan"), match.get("eth_dst")
        network = networks.get(vlan[0] & 0xFFF) if vlan is not None else None
        if network is None or cookie_of(state) != COOKIE:
            continue
        if key[0] == FLOOD.number:
            numbers = output_ports(state) & peers.keys()
            found |= {FloodKey(network, peers[number]) for number in numbers}
        elif mac is not None:
            found.add(ForwardingKey(network, _mac(mac[0])))
    return found


def _peers(observed: Observed) -> Iterator[tuple[int, Endpoint]]:
    """The peers that networks flood to one by one, by the number of the tunnel."""
    for port in observed.snapshot.ports.values():
        endpoint, number = endpoint_of(port), ofport_of(port)
        if endpoint is not None and number is not None and MESH_MARK not in port.external_ids:
            yield number, endpoint


def _mac(number: int) -> Mac:
    return Mac(":".join(f"{byte:02x}" for byte in number.to_bytes(6)))
