"""Numbers of flows per object, counted on examples.  Pure; for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_address, ip_interface, ip_network
from uuid import UUID

from netfw import flows as of
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.switch_values import RouterInterface
from netfw.model.segment import NetworkType, Provider
from netfw.model.values.address import Mac
from netfw.model.values.ids import NetworkId, PortId, SegmentId
from netfw_drivers.ovs.common.local_vlans import BroadcastDomain
from netfw_drivers.ovs.flow_counts import firewall
from netfw_drivers.ovs.pipeline import br_int, br_phys, br_tun, distributed_routing
from netfw_drivers.ovs.pipeline.br_int import PlannedPort, PlannedSubport, Receiver
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout
from netfw_drivers.ovs.pipeline.tables import CHUNK_BITS

_MAC = Mac("fa:16:3e:00:00:01")
_LAYOUT = ExtensionLayout()
_DOMAIN = BroadcastDomain(NetworkId(UUID(int=1)), SegmentId(UUID(int=2)))
_VLAN = Provider(network_type=NetworkType.VLAN, physical_network="physnet1", segmentation_id=9)
_GUARD = frozenset(
    {AllowedSource(_MAC, ip_network("192.0.2.1")), AllowedSource(_MAC, ip_network("2001:db8::1"))}
)


def describe() -> str:
    """Return a table of Markdown."""
    lines = ["| what | bridge | flows |", "| --- | --- | --- |"]
    lines += [f"| {what} | {bridge} | {len(list(flows))} |" for what, bridge, flows in _examples()]
    lines += [f"| {what} | br-int | {number} |" for what, number in firewall.counts()]
    return "\n".join(lines) + "\n"


def _examples() -> Iterator[tuple[str, str, Iterable[of.Flow]]]:
    inside, tunnels, physical = "br-int", "br-tun", "physical"
    yield "base flows", inside, br_int.base_flows(1, _LAYOUT)
    yield "base flows, with responder", tunnels, br_tun.base_flows(1, responder=True)
    yield "base flows", physical, br_phys.base_flows(1)
    yield "a port", inside, _port_flows(None)
    yield "a port without port security", inside, _port_flows(None, mac_limit=1)
    yield "a guarded port with two addresses", inside, _port_flows(_GUARD)
    yield "a filtered port, besides its firewall", inside, _port_flows(None, True)
    yield "a port whose MAC is on several hosts", inside, _port_flows(None, shared_mac=True)
    yield "a sub-port of a trunk, besides", inside, _sub_port_flows()
    yield "a network with ports", inside, br_int.domain_flows(1, (0,), (), 1, _LAYOUT)
    chunk = f"up to {1 << CHUNK_BITS} ports of one network, for broadcast"
    yield chunk, inside, br_int.chunk_flows(1, 0, (Receiver(1),), _LAYOUT)
    yield "a flat or VLAN network", inside, br_int.network_flows(1, _VLAN, 1)
    yield "a flat or VLAN network", physical, br_phys.network_flows(1, _VLAN, 1)
    overlay = br_tun.network_flows(1, NetworkType.VXLAN, 1, (1,))
    yield "a tunnelled network, however many peers", tunnels, overlay
    mesh = br_tun.tunnel_flows(1, NetworkType.VXLAN, learns=True)
    yield "a tunnel of a mesh", tunnels, mesh
    plain = br_tun.tunnel_flows(1, NetworkType.VXLAN, learns=False)
    yield "a tunnel with population", tunnels, plain
    answered = [ip_address("192.0.2.1"), ip_address("2001:db8::1")]
    entry = br_tun.forwarding_flows(1, 1, _MAC, (1,), answered)
    yield "a port elsewhere, answered for with two addresses", tunnels, entry
    for hosts in (2, 3):
        shared = br_tun.forwarding_flows(1, 1, _MAC, range(1, hosts + 1), answered)
        yield f"the same with a MAC on {hosts} other hosts", tunnels, shared
    yield from _routing_examples(inside, tunnels)


def _routing_examples(inside: str, tunnels: str) -> Iterator[tuple[str, str, Iterable[of.Flow]]]:
    first, second = distributed_routing.plan_interfaces(
        frozenset(map(_router_interface, range(1, 3)))
    )
    for what, planned in (
        ("the first distributed router of a network, with two subnets", first),
        ("each other distributed router of it, with two subnets", second),
    ):
        segment = distributed_routing.RoutedSegment(1, 1, tunnelled=True)
        yield what, inside, distributed_routing.interface_flows([segment], planned, _MAC)
    routed = [*br_int.network_flows(1, _VLAN, 1, routed=True)][1:]
    yield "a flat or VLAN network with distributed routers, besides", inside, routed
    serving = distributed_routing.port_flow(of.ANYTHING, _MAC, tunnelled=True)
    yield "a port of a network with several distributed routers, besides", inside, [serving]
    host = distributed_routing.host_flows(_MAC, (1,), own=False)
    yield "a host with distributed routers, and one bridge that leads to it", inside, host
    tunnel = br_tun.host_flows(_MAC, [(NetworkType.VXLAN, 1)])
    yield "the same, reached by tunnels", tunnels, tunnel


def _router_interface(number: int) -> RouterInterface:
    addresses = f"192.0.{number}.1/24", f"2001:db8:{number}::1/64"
    return RouterInterface(
        PortId(UUID(int=number)),
        Mac(f"fa:16:3e:00:00:{number:02x}"),
        frozenset(map(ip_interface, addresses)),
    )


def _sub_port_flows() -> Iterator[of.Flow]:
    port = PlannedPort(
        domain=_DOMAIN,
        number=1,
        vlan=1,
        mac=_MAC,
        sub_port=PlannedSubport(parent=2, end=3, tag=4),
    )
    plain = set(_port_flows(None))
    return (flow for flow in br_int.port_flows(port, _LAYOUT) if flow not in plain)


def _port_flows(
    guard: frozenset[AllowedSource] | None,
    filtered: bool = False,
    shared_mac: bool = False,
    mac_limit: int = 0,
) -> Iterator[of.Flow]:
    port = PlannedPort(
        domain=_DOMAIN,
        number=1,
        vlan=1,
        mac=_MAC,
        guard=guard,
        filtered=filtered,
        shared_mac=shared_mac,
        mac_limit=mac_limit,
    )
    return br_int.port_flows(port, _LAYOUT)
