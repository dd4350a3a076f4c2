"""Routes of a router: those of its gateway and of users, without those that cannot be.  Pure.

The kernel would refuse an impossible route, and with it the whole update of its router.  So such a
route is left out, and named with the reason.  What is left is accepted in any order, whichever part
of it the kernel has already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import field, frozen

from netfw.drivers.values.router_values import Gateway
from netfw.linux.ip.values import IpRoute, NextHop, RouteKey
from netfw.model.values.address import IpAddress, IpInterface, IpNetwork
from netfw.model.values.route import Route
from netfw_drivers.linux_router.plan.next_hops import HopTable, PlannedHop, default_hop, user_hop

CONNECTED = "the router is connected to that network itself"
OWN_ADDRESS = "the next hop is an address of the router itself"
NOT_A_HOST = "the next hop is not the address of a host"
UNREACHABLE = "the next hop is on none of the networks that the router is connected to now"
TWO_DEVICES = (
    "together with the other routes, one next hop would be reached through two devices, which the "
    "kernel refuses"
)


@frozen(kw_only=True)
class RouterRoutes:
    """The routes of a router, and those that are left out."""

    routes: Mapping[RouteKey, IpRoute] = field(factory=dict)
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
    user_routes: Iterable[Route],
    gateway: Gateway | None,
    gateway_device: str | None,
    addresses: Sequence[tuple[IpInterface, str]],
) -> RouterRoutes:
    """Return the routes of a router; those of users override those of the gateway."""
    routes: list[IpRoute] = []
    defaults: dict[IpNetwork, PlannedHop] = {}
    left_out: dict[str, str] = {}
    connected = ConnectedNetworks(addresses=addresses)
    if gateway is not None and gateway_device is not None:
        for subnet in gateway.onlink_subnets:
            if connected.has_network(subnet):
                left_out[f"route to {subnet} of the external network"] = CONNECTED
            else:
                routes.append(IpRoute(destination=subnet, hops=(NextHop(device=gateway_device),)))
        for hop in gateway.next_hops:
            if any(interface.ip == hop for interface, _ in addresses):
                left_out[f"default route via {hop}"] = OWN_ADDRESS
            else:
                default = default_hop(hop, gateway_device, gateway.port.addresses)
                defaults[default.destination] = default
        onlink_subnets = [(subnet, gateway_device) for subnet in gateway.onlink_subnets]
        connected = ConnectedNetworks(addresses=addresses, onlink=onlink_subnets)
    of_users = _user_hops(user_routes, connected, left_out)
    routes += _hop_routes(defaults, of_users, left_out)
    return RouterRoutes(routes={each.key: each for each in routes}, left_out=left_out)


def _user_hops(
    user_routes: Iterable[Route], connected: ConnectedNetworks, left_out: dict[str, str]
) -> list[PlannedHop]:
    """Return the next hops of users; add those that cannot be to *left_out*."""
    possible: list[PlannedHop] = []
    for each in user_routes:
        near = connected.nearest(each.nexthop)
        problem = connected.hop_problem(each.nexthop)
        if connected.has_network(each.destination):
            problem = CONNECTED
        if problem is not None or near is None:
            left_out[_text(each.destination, each.nexthop)] = problem or UNREACHABLE
        else:
            possible.append(user_hop(each, *near))
    return possible


def _hop_routes(
    defaults: Mapping[IpNetwork, PlannedHop],
    of_users: Iterable[PlannedHop],
    left_out: dict[str, str],
) -> list[IpRoute]:
    """Return the routes with these next hops; add those that the kernel refuses to *left_out*."""
    table = HopTable()
    wanted = sorted(of_users, key=lambda each: each.order)
    overridden = {each.destination for each in wanted}
    for each in (hop for to, hop in defaults.items() if to not in overridden):
        table.add(each)  # alone they hide no next hop
    for each in wanted:
        if not table.add(each):
            left_out[_text(each.destination, each.via)] = TWO_DEVICES
    return table.routes()


def _text(destination: IpNetwork, hop: IpAddress) -> str:
    return f"route to {destination} via {hop}"
