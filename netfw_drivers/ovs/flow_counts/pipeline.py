"""Numbers of flows per object, counted on examples.  Pure; for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_address, ip_network
from uuid import UUID

from netfw import flows as of
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.model.address import Mac
from netfw.model.ids import NetworkId, SegmentId
from netfw.model.segment import NetworkType, Provider
from netfw_drivers.ovs.common.local_vlans import Domain
from netfw_drivers.ovs.flow_counts import firewall
from netfw_drivers.ovs.pipeline import br_int, br_phys, br_tun
from netfw_drivers.ovs.pipeline.br_int import PlannedPort, Receiver
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout
from netfw_drivers.ovs.pipeline.tables import CHUNK_BITS

_MAC = Mac("fa:16:3e:00:00:01")
_LAYOUT = ExtensionLayout()
_DOMAIN = Domain(NetworkId(UUID(int=1)), SegmentId(UUID(int=2)))
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
