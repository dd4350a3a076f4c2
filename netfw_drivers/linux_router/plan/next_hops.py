"""Next hops of routes that the kernel accepts together.  Pure.

A route to a part of a connected network hides that the next hops in it are on the link.  IPv6 then
has two rules.  Without ``onlink``, the next hop must not be behind a gateway on its own device;
with it, the most specific route to the next hop must be on its own device.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field, frozen

from netfw.linux.ip.values import IpRoute, NextHop
from netfw.model.values.address import IpAddress, IpInterface, IpNetwork, as_network
from netfw.model.values.route import Route

_LINK_LOCAL = as_network("fe80::/64")


@frozen(kw_only=True)
class PlannedHop:
    """A next hop of the route to *destination*."""

    destination: IpNetwork
    via: IpAddress
    device: str
    network: IpNetwork | None
    """The network by which the kernel knows that *via* is on the link; None: it does not."""

    @property
    def order(self) -> tuple[int, int, int, int]:
        """The sort key by which next hops are added; it depends on the route alone."""
        to = self.destination
        return to.version, to.prefixlen, int(to.network_address), int(self.via)

    def is_hidden_by(self, other: PlannedHop) -> bool:
        """Return whether the route of *other* to *via* is preferred to the connected network."""
        least = 0 if self.network is None else self.network.prefixlen
        return self.via in other.destination and other.destination.prefixlen > least

    def is_refused(self, hiding: frozenset[str]) -> bool:
        """Return whether the kernel may refuse it, if it is hidden by routes on these devices."""
        if self.via.version == 4:
            return False
        return bool(hiding - {self.device}) and (self.network is None or self.device in hiding)

    def next_hop(self, hiding: frozenset[str]) -> NextHop:
        """Return it as the kernel accepts it, hidden or not."""
        hidden = bool(hiding) if self.via.version == 4 else self.device in hiding
        return NextHop(via=self.via, device=self.device, onlink=hidden or self.network is None)


@define
class HopTable:
    """Next hops that the kernel accepts together, each with the devices of what hides it."""

    _hiding: dict[PlannedHop, frozenset[str]] = field(factory=dict)

    def add(self, hop: PlannedHop) -> bool:
        """Add a next hop, unless the kernel would refuse it or another; return whether it is."""
        own = (each.device for each in (*self._hiding, hop) if hop.is_hidden_by(each))
        hidden = {
            each: devices | {hop.device}
            for each, devices in self._hiding.items()
            if each.is_hidden_by(hop)
        }
        after = {**hidden, hop: frozenset(own)}
        if any(each.is_refused(devices) for each, devices in after.items()):
            return False
        self._hiding |= after
        return True

    def routes(self) -> list[IpRoute]:
        """Return the routes, one for each destination."""
        hops: dict[IpNetwork, list[NextHop]] = {}
        for each, devices in self._hiding.items():
            hops.setdefault(each.destination, []).append(each.next_hop(devices))
        return [IpRoute(destination=to, hops=tuple(several)) for to, several in hops.items()]


def user_hop(route: Route, network: IpNetwork, device: str) -> PlannedHop:
    """Return the next hop of a user's route, which is on *network*."""
    return PlannedHop(
        destination=route.destination, via=route.nexthop, device=device, network=network
    )


def default_hop(via: IpAddress, device: str, addresses: Iterable[IpInterface]) -> PlannedHop:
    """Return the next hop of a default route by a device that has these addresses."""
    networks = [*(interface.network for interface in addresses), _LINK_LOCAL]
    near = max(
        (each for each in networks if via in each), key=lambda each: each.prefixlen, default=None
    )
    everything = as_network("::/0" if via.version == 6 else "0.0.0.0/0")
    return PlannedHop(destination=everything, via=via, device=device, network=near)
