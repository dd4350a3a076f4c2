"""Whether, for whom and under whose name a metadata proxy is to run beside a DHCP server.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network
from typing import Final
from uuid import UUID

from attrs import frozen

from netfw.drivers.dhcp import METADATA_ADDRESSES, DhcpLocation
from netfw.drivers.keys import NetworkKey, RouterKey
from netfw.drivers.metadata import MetadataKey, MetadataProxy
from netfw.model.device_owner import is_router_interface
from netfw.model.ids import NetworkId, RouterId, SubnetId
from netfw.model.port import Port
from netfw.model.subnet import Subnet

METADATA_NETWORK: Final = IPv4Network("169.254.0.0/16")


@frozen(kw_only=True)
class MetadataPolicy:
    """What the operator decided."""

    force: bool = False
    """Every network that is served has a proxy."""
    isolated: bool = False
    """Those have one from whose subnets no router leads to the metadata service."""
    network: bool = False
    """Those have one whose addresses are those of the metadata service: for their router."""


@frozen(kw_only=True)
class ProxySpec:
    """What is wanted of a metadata proxy for a network."""

    subnets: frozenset[SubnetId]
    """Whose instances reach the metadata service through the DHCP server's port."""
    key: MetadataKey | None
    """Whose requests the proxy passes on; ``None``: it cannot be said."""
    fault: str = ""
    """Why not."""

    def proxy(self, place: DhcpLocation) -> MetadataProxy:
        """The proxy in the place of the DHCP server."""
        address = METADATA_ADDRESSES[4].ip
        return MetadataProxy(netns=place.netns, addresses=(address,), device=place.device)


def proxying(
    network: NetworkId, subnets: Sequence[Subnet], ports: Iterable[Port], rules: MetadataPolicy
) -> ProxySpec | None:
    """What *rules* want on a network with these subnets and router ports; ``None``: nothing."""
    served = [subnet for subnet in subnets if subnet.enable_dhcp]
    legs = [port for port in ports if is_router_interface(port.device_owner)]
    reached = {fixed.address for leg in legs for fixed in leg.fixed_ips}
    isolated = {subnet.id for subnet in served if subnet.gateway not in reached}
    link_local = {subnet.id for subnet in served if _is_metadata_subnet(subnet)}
    wanted: set[SubnetId] = set()
    if rules.force:
        wanted |= {subnet.id for subnet in served}
    if rules.isolated:
        wanted |= isolated
    if rules.network:
        wanted |= link_local
    if not wanted:
        return None
    if rules.network and link_local and legs:
        return _for_router(frozenset(wanted), legs)
    return ProxySpec(subnets=frozenset(wanted), key=NetworkKey(network))


def _for_router(subnets: frozenset[SubnetId], legs: Sequence[Port]) -> ProxySpec:
    if len(legs) > 1:
        ports = ", ".join(sorted(str(leg.id) for leg in legs))
        fault = (
            "a metadata network is for one router, whose requests its proxy passes on: "
            f"remove all but one of the router ports {ports}"
        )
        return ProxySpec(subnets=subnets, key=None, fault=fault)
    try:
        router = RouterId(UUID(legs[0].device_id))
    except ValueError:
        fault = f"the router port {legs[0].id} of a metadata network names no router"
        return ProxySpec(subnets=subnets, key=None, fault=fault)
    return ProxySpec(subnets=subnets, key=RouterKey(router))


def _is_metadata_subnet(subnet: Subnet) -> bool:
    cidr = subnet.cidr
    return isinstance(cidr, IPv4Network) and cidr.subnet_of(METADATA_NETWORK)
