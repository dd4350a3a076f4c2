"""Which routes instances are told by DHCP.  Pure; IPv4 only."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from netfw.drivers.dhcp import METADATA_ADDRESSES, DhcpNetwork
from netfw.model.address import IpAddress
from netfw.model.route import Route
from netfw.model.subnet import Subnet

ON_LINK: Final = IPv4Address("0.0.0.0")
"""The next hop of what is reached without one."""
_EVERYWHERE: Final = IPv4Network("0.0.0.0/0")


def told_gateway(subnet: Subnet) -> IpAddress | None:
    """The subnet's, or else where its routes lead to everywhere."""
    asked = (route.nexthop for route in subnet.host_routes if route.destination == _EVERYWHERE)
    return subnet.gateway or next(asked, None)


def told_routes(network: DhcpNetwork, subnet: Subnet) -> tuple[Route, ...]:
    """What instances of *subnet* are told: all routes or none, the default one included, since
    whoever is told any does not look at the gateway (RFC 3442).

    Those are the subnet's own, and where it has none to the same: to other subnets on its link, to
    the metadata service where it is reached through the server, and to a gateway outside, which
    comes first.
    """
    found = {each.destination: each for each in (*_outside(network, subnet), *subnet.host_routes)}
    found.pop(_EVERYWHERE, None)
    for route in (*_beside(network, subnet), *_metadata(network, subnet)):
        found.setdefault(route.destination, route)
    gateway = told_gateway(subnet)
    default = () if gateway is None else (Route(destination=_EVERYWHERE, nexthop=gateway),)
    return (*found.values(), *default) if found else ()


def _beside(network: DhcpNetwork, subnet: Subnet) -> Iterator[Route]:
    """To other subnets on the same link."""
    for other in sorted(network.subnets, key=lambda each: int(each.cidr.network_address)):
        same_link = other.segment_id == subnet.segment_id
        if other.id != subnet.id and other.ip_version == 4 and same_link:
            yield Route(destination=other.cidr, nexthop=ON_LINK)


def _metadata(network: DhcpNetwork, subnet: Subnet) -> Iterator[Route]:
    own = [each.ip for each in network.server.addresses if each.ip in subnet.cidr]
    if own and subnet.id in network.metadata_for:
        yield Route(destination=METADATA_ADDRESSES[4].network, nexthop=own[0])


def _outside(network: DhcpNetwork, subnet: Subnet) -> Iterator[Route]:
    gateway = told_gateway(subnet)
    near = (subnet.cidr, *(each.destination for each in _beside(network, subnet)))
    if gateway is not None and not any(gateway in block for block in near):
        yield Route(destination=IPv4Network(int(gateway)), nexthop=ON_LINK)
