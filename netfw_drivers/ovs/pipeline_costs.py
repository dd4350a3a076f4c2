"""How many flows each thing costs, counted on examples.  Pure; for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_address, ip_network

from netfw import flows as of
from netfw.drivers.allowed_source import AllowedSource
from netfw.model.address import Mac
from netfw.model.segment import NetworkType, Provider
from netfw_drivers.ovs import firewall_costs, integration, physical_bridge, tunnel_bridge
from netfw_drivers.ovs.grants import Layout
from netfw_drivers.ovs.integration import WiredPort
from netfw_drivers.ovs.pipeline import CHUNK_BITS
from netfw_drivers.ovs.switch_members import Receiver

_MAC = Mac("fa:16:3e:00:00:01")
_LAYOUT = Layout()
_VLAN = Provider(network_type=NetworkType.VLAN, physical_network="physnet1", segmentation_id=9)
_GUARD = frozenset(
    {AllowedSource(_MAC, ip_network("192.0.2.1")), AllowedSource(_MAC, ip_network("2001:db8::1"))}
)


def describe() -> str:
    """A table of Markdown."""
    lines = ["| what | bridge | flows |", "| --- | --- | --- |"]
    lines += [f"| {what} | {bridge} | {len(list(flows))} |" for what, bridge, flows in _examples()]
    lines += [f"| {what} | br-int | {number} |" for what, number in firewall_costs.counts()]
    return "\n".join(lines) + "\n"


def _examples() -> Iterator[tuple[str, str, Iterable[of.Flow]]]:
    inside, tunnels, physical = "br-int", "br-tun", "physical"
    yield "the ground", inside, integration.base_flows(1, _LAYOUT)
    yield "the ground, with responder", tunnels, tunnel_bridge.base_flows(1, responder=True)
    yield "the ground", physical, physical_bridge.base_flows(1)
    yield "a port", inside, integration.port_flows(_port(None))
    yield "a guarded port with two addresses", inside, integration.port_flows(_port(_GUARD))
    yield "a filtered port, besides its firewall", inside, integration.port_flows(_port(None, True))
    yield "a network with ports", inside, integration.domain_flows(1, (0,), (), 1, _LAYOUT)
    chunk = f"up to {1 << CHUNK_BITS} ports of one network, for broadcast"
    yield chunk, inside, integration.chunk_flows(1, 0, (Receiver(1),), _LAYOUT)
    yield "a flat or VLAN network", inside, integration.network_flows(1, _VLAN, 1)
    yield "a flat or VLAN network", physical, physical_bridge.network_flows(1, _VLAN, 1)
    overlay = tunnel_bridge.network_flows(1, NetworkType.VXLAN, 1, (1,))
    yield "a tunnelled network, however many peers", tunnels, overlay
    mesh = tunnel_bridge.tunnel_flows(1, NetworkType.VXLAN, learns=True)
    yield "a tunnel of a mesh", tunnels, mesh
    plain = tunnel_bridge.tunnel_flows(1, NetworkType.VXLAN, learns=False)
    yield "a tunnel with population", tunnels, plain
    answered = [ip_address("192.0.2.1"), ip_address("2001:db8::1")]
    entry = tunnel_bridge.forwarding_flows(1, 1, _MAC, 1, answered)
    yield "a port elsewhere, answered for with two addresses", tunnels, entry


def _port(guard: frozenset[AllowedSource] | None, filtered: bool = False) -> WiredPort:
    return WiredPort(number=1, vlan=1, mac=_MAC, guard=guard, filtered=filtered, layout=_LAYOUT)
