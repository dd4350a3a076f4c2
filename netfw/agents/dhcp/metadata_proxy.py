"""Which networks get a metadata proxy beside their DHCP server, and under which key.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network
from typing import Final
from uuid import UUID

from attrs import frozen

from netfw.drivers.dhcp import METADATA_ADDRESSES, DhcpLocation
from netfw.drivers.metadata import MetadataKey, MetadataProxy
from netfw.drivers.values.keys import NetworkKey, RouterKey
from netfw.model.port import Port
from netfw.model.subnet import Subnet
from netfw.model.values.device_owner import is_router_interface
from netfw.model.values.ids import NetworkId, RouterId, SubnetId

METADATA_NETWORK: Final = IPv4Network("169.254.0.0/16")


@frozen(kw_only=True)
class MetadataPolicy:
    """The operator's choice of networks with a metadata proxy."""

    force: bool = False
    """Every served network has a proxy."""
    isolated: bool = False
    """Networks have one if a subnet has no router that leads to the metadata service."""
    network: bool = False
    """Networks with the metadata service's addresses have one, for their router."""


@frozen(kw_only=True)
class ProxySpec:
    """The desired metadata proxy of a network."""

    subnets: frozenset[SubnetId]
    """The subnets whose instances reach the metadata service through the DHCP server's port."""
    key: MetadataKey | None
    """The network or router whose requests the proxy forwards; ``None``: undecidable."""
    problem: str = ""
    """Why there is no key."""

    def make_proxy(self, location: DhcpLocation) -> MetadataProxy:
        """Return the proxy in the namespace of the DHCP server."""
        address = METADATA_ADDRESSES[4].ip
        return MetadataProxy(netns=location.netns, addresses=(address,), device=location.device)


def plan_proxy(
    network: NetworkId, subnets: Sequence[Subnet], ports: Iterable[Port], policy: MetadataPolicy
) -> ProxySpec | None:
    """Return the proxy of a network with these subnets and router ports, or ``None``."""
    served = [subnet for subnet in subnets if subnet.enable_dhcp]
    interfaces = [port for port in ports if is_router_interface(port.device_owner)]
    reached = {fixed.address for interface in interfaces for fixed in interface.fixed_ips}
    isolated = {subnet.id for subnet in served if subnet.gateway not in reached}
    link_local = {subnet.id for subnet in served if _is_metadata_subnet(subnet)}
    wanted: set[SubnetId] = set()
    if policy.force:
        wanted |= {subnet.id for subnet in served}
    if policy.isolated:
        wanted |= isolated
    if policy.network:
        wanted |= link_local
    if not wanted:
        return None
    if policy.network and link_local and interfaces:
        return _for_router(frozenset(wanted), interfaces)
    return ProxySpec(subnets=frozenset(wanted), key=NetworkKey(network))


def _for_router(subnets: frozenset[SubnetId], interfaces: Sequence[Port]) -> ProxySpec:
    if len(interfaces) > 1:
        ports = ", ".join(sorted(str(interface.id) for interface in interfaces))
        problem = (
            "a metadata network is for one router, whose requests its proxy forwards: "
            f"remove all but one of the router ports {ports}"
        )
        return ProxySpec(subnets=subnets, key=None, problem=problem)
    try:
        router = RouterId(UUID(interfaces[0].device_id))
    except ValueError:
        problem = f"the router port {interfaces[0].id} of a metadata network names no router"
        return ProxySpec(subnets=subnets, key=None, problem=problem)
    return ProxySpec(subnets=subnets, key=RouterKey(router))


def _is_metadata_subnet(subnet: Subnet) -> bool:
    cidr = subnet.cidr
    return isinstance(cidr, IPv4Network) and cidr.subnet_of(METADATA_NETWORK)
