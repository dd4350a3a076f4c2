"""Classless static routes that DHCP advertises to instances.  Pure; IPv4 only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network
from itertools import accumulate
from typing import Final

from netfw.drivers.dhcp import METADATA_ADDRESSES, DhcpNetwork
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress
from netfw.model.values.route import Route

ON_LINK: Final = IPv4Address("0.0.0.0")
"""Next hop of an on-link destination."""
MAX_OCTETS: Final = 200
"""Maximum octets of routes.  An option could have 255, but an answer to a client that states no
limit has 576 in all, and servers silently leave out what does not fit."""
_EVERYWHERE: Final = IPv4Network("0.0.0.0/0")


def advertised_gateway(subnet: Subnet) -> IpAddress | None:
    """Return the gateway of the subnet, or else the next hop of its default host route."""
    default = (route.nexthop for route in subnet.host_routes if route.destination == _EVERYWHERE)
    return subnet.gateway or next(default, None)


def advertised_routes(network: DhcpNetwork, subnet: Subnet) -> tuple[Route, ...]:
    """Return the classless routes that instances of *subnet* receive: all of them or none.

    The default route is among them, since a client that receives classless routes ignores the
    router option (RFC 3442).  The routes are the subnet's own, and if it has none to the same
    destination: to other subnets on its link, to the metadata service if it is reached through the
    server, and to a gateway outside, which comes first.  If an answer cannot hold all, routes to
    other subnets are omitted first, as they were not requested and the gateway has them, then the
    last of the subnet's own.
    """
    found = {each.destination: each for each in (*_outside(network, subnet), *subnet.host_routes)}
    found.pop(_EVERYWHERE, None)
    needed = [each for each in _metadata(network, subnet) if each.destination not in found]
    gateway = advertised_gateway(subnet)
    default = [] if gateway is None else [Route(destination=_EVERYWHERE, nexthop=gateway)]
    available = MAX_OCTETS - sum(map(octets, (*needed, *default)))
    routes = _fitting(found.values(), available)
    beside = [each for each in _beside(network, subnet) if each.destination not in found]
    routes += _fitting(beside, available - sum(map(octets, routes))) + needed
    return (*routes, *default) if routes else ()


def omitted_routes(network: DhcpNetwork, subnet: Subnet) -> tuple[Route, ...]:
    """Return the host routes of the subnet that do not fit; the driver reports them."""
    advertised = advertised_routes(network, subnet)
    by_another = (_EVERYWHERE, *(each.destination for each in advertised))
    return tuple(each for each in subnet.host_routes if each.destination not in by_another)


def _fitting(routes: Iterable[Route], available: int) -> list[Route]:
    """Return the first routes that fit into *available* octets together."""
    sizes = accumulate(map(octets, routes := list(routes)))
    return [route for route, size in zip(routes, sizes, strict=True) if size <= available]


def octets(route: Route) -> int:
    """Return the length of a route in octets, as RFC 3442 encodes it."""
    return 1 + (route.destination.prefixlen + 7) // 8 + 4


def _beside(network: DhcpNetwork, subnet: Subnet) -> Iterator[Route]:
    """Yield routes to other subnets on the same link."""
    for other in sorted(network.subnets, key=lambda each: int(each.cidr.network_address)):
        same_link = other.segment_id == subnet.segment_id
        if other.id != subnet.id and other.ip_version == 4 and same_link:
            yield Route(destination=other.cidr, nexthop=ON_LINK)


def _metadata(network: DhcpNetwork, subnet: Subnet) -> Iterator[Route]:
    own = [each.ip for each in network.server.addresses if each.ip in subnet.cidr]
    if own and subnet.id in network.metadata_for:
        yield Route(destination=METADATA_ADDRESSES[4].network, nexthop=own[0])


def _outside(network: DhcpNetwork, subnet: Subnet) -> Iterator[Route]:
    gateway = advertised_gateway(subnet)
    near = (subnet.cidr, *(each.destination for each in _beside(network, subnet)))
    if gateway is not None and not any(gateway in block for block in near):
        yield Route(destination=IPv4Network(int(gateway)), nexthop=ON_LINK)
