"""Routes of a router: those of its gateway and of users, without those that cannot be.  Pure.

The kernel would refuse an impossible route, and with it the whole update of its router.  So such a
route is left out, and named with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import field, frozen

from netfw.drivers.values.router_values import Gateway
from netfw.linux.ip.values import NextHop, Route, RouteKey, route
from netfw.model.address import IpAddress, IpInterface, IpNetwork
from netfw.model.route import Route as UserRoute

CONNECTED = "the router is connected to that network itself"
OWN_ADDRESS = "the next hop is an address of the router itself"
NOT_A_HOST = "the next hop is not the address of a host"
UNREACHABLE = "the next hop is on none of the networks that the router is connected to now"


@frozen(kw_only=True)
class RouterRoutes:
    """The routes of a router, and those that are left out."""

    routes: Mapping[RouteKey, Route] = field(factory=dict)
    left_out: Mapping[str, str] = field(factory=dict)
    """By the route as text: why it is left out."""


@frozen(kw_only=True)
class ConnectedNetworks:
    """The addresses of the devices of a router, and what is on the link beside their networks."""

    addresses: Sequence[tuple[IpInterface, str]]
    """Each address with its device."""
    onlink: Sequence[tuple[IpNetwork, str]] = ()

    def has_network(self, network: IpNetwork) -> bool:
        """Return whether the kernel has a route to exactly this network by itself."""
        return any(interface.network == network for interface, _ in self.addresses)

    def hop_problem(self, hop: IpAddress) -> str | None:
        """Return why *hop* cannot be a next hop."""
        if any(interface.ip == hop for interface, _ in self.addresses):
            return OWN_ADDRESS
        near = self.nearest(hop)
        if near is None:
            return UNREACHABLE
        network, _ = near
        ends = network.network_address, network.broadcast_address
        if hop.version == 4 and network.prefixlen < 31 and hop in ends:
            return NOT_A_HOST
        return None

    def nearest(self, hop: IpAddress) -> tuple[IpNetwork, str] | None:
        """Return the smallest network that *hop* is on, and its device."""
        networks = [(interface.network, device) for interface, device in self.addresses]
        near = [each for each in (*networks, *self.onlink) if hop in each[0]]
        return max(near, key=lambda each: (each[0].prefixlen, each[1]), default=None)


def make_routes(
    user_routes: Iterable[UserRoute],
    gateway: Gateway | None,
    gateway_device: str | None,
    addresses: Sequence[tuple[IpInterface, str]],
) -> RouterRoutes:
    """Return the routes of a router; those of users override those of the gateway."""
    routes: list[Route] = []
    left_out: dict[str, str] = {}
    connected = ConnectedNetworks(addresses=addresses)
    if gateway is not None and gateway_device is not None:
        for subnet in gateway.onlink_subnets:
            if connected.has_network(subnet):
                left_out[f"route to {subnet} of the external network"] = CONNECTED
            else:
                routes.append(Route(destination=subnet, hops=(NextHop(device=gateway_device),)))
        for hop in gateway.next_hops:
            if any(interface.ip == hop for interface, _ in addresses):
                left_out[f"default route via {hop}"] = OWN_ADDRESS
            else:
                onlink = not _is_near(hop, gateway)
                routes.append(route("default", via=hop, device=gateway_device, onlink=onlink))
        onlink_subnets = [(subnet, gateway_device) for subnet in gateway.onlink_subnets]
        connected = ConnectedNetworks(addresses=addresses, onlink=onlink_subnets)
    of_users = _user_routes(user_routes, connected, left_out)
    return RouterRoutes(routes={each.key: each for each in (*routes, *of_users)}, left_out=left_out)


def _user_routes(
    user_routes: Iterable[UserRoute], connected: ConnectedNetworks, left_out: dict[str, str]
) -> list[Route]:
    """Return the routes of users; add those that cannot be to *left_out*."""
    possible: dict[IpNetwork, list[tuple[IpAddress, IpNetwork, str]]] = {}
    for each in user_routes:
        near = connected.nearest(each.nexthop)
        problem = connected.hop_problem(each.nexthop)
        if connected.has_network(each.destination):
            problem = CONNECTED
        if problem is not None or near is None:
            left_out[f"route to {each.destination} via {each.nexthop}"] = problem or UNREACHABLE
        else:
            possible.setdefault(each.destination, []).append((each.nexthop, *near))
    return [
        Route(
            destination=destination,
            hops=tuple(
                dict.fromkeys(
                    NextHop(via=hop, device=device, onlink=_is_covered(hop, network, possible))
                    for hop, network, device in several
                )
            ),
        )
        for destination, several in possible.items()
    ]


def _is_covered(hop: IpAddress, network: IpNetwork, destinations: Iterable[IpNetwork]) -> bool:
    """Return whether a route to a part of its network hides that *hop* is on the link."""
    return any(hop in each and each.prefixlen > network.prefixlen for each in destinations)


def _is_near(hop: IpAddress, gateway: Gateway) -> bool:
    """Return whether the kernel knows by itself that the next hop is on the link."""
    if hop.version == 6 and hop.is_link_local:
        return True
    return any(hop in interface.network for interface in gateway.port.addresses)
