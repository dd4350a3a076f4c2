"""The link between the local part of a router and an agent gateway.  Pure.

It is a veth pair with two addresses of 169.254.64.0/18, the lowest free ones; the addresses of the
gateways' ends are the only record of that.  The gateway's end belongs to the router: its address,
and the routes to the floating IPs by it.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, ip_network
from typing import Final

from attrs import evolve, field, frozen

from netfw.drivers.values.keys import FloatingIpKey
from netfw.drivers.values.router_values import RouterDriverKey
from netfw.errors import Exhausted
from netfw.linux.ip.operations import (
    AddAddress,
    AddRoute,
    DelAddress,
    DelRoute,
    NetworkOperation,
    SetMtu,
    SetUp,
)
from netfw.linux.ip.plan import by_hand, plan_addresses, plan_routes, plan_sysctl
from netfw.linux.ip.values import Address, FoundAddress, IpRoute, Link, route
from netfw.linux.router_netns.values import NetnsDevice, NetnsLink
from netfw.linux.service_netns.steps import ChangeNetwork
from netfw.linux.service_netns.values import ObservedNetns
from netfw.model.values.address import IpNetwork
from netfw.model.values.ids import FloatingIpId, NetworkId, RouterId
from netfw.plan import Operation, Stage
from netfw_drivers.linux_router.plan.floating_ip_rules import Translations
from netfw_drivers.linux_router.plan.names import gateway_namespace, link_devices, part_key

ADDRESSES: Final = IPv4Network("169.254.64.0/18")
_LENGTH = 31
SETTINGS: Mapping[str, str] = {
    "ipv4/rp_filter": "0",
    "ipv4/send_redirects": "0",
    "ipv6/disable_ipv6": "1",
}
"""Parameters of both ends; floating IPs are IPv4."""


@frozen
class LinkPair:
    """The addresses of the ends of a link."""

    network: IPv4Network

    @property
    def router_end(self) -> IPv4Interface:
        return IPv4Interface((self.network[0], self.network.prefixlen))

    @property
    def gateway_end(self) -> IPv4Interface:
        return IPv4Interface((self.network[1], self.network.prefixlen))


def find_pair(addresses: Iterable[FoundAddress], device: str) -> LinkPair | None:
    """Return the pair that the gateway's end *device* has, if any."""
    for entry in addresses:
        interface = entry.address.interface
        if entry.address.device != device or not isinstance(interface, IPv4Interface):
            continue
        network = interface.network
        if network.prefixlen == _LENGTH and network.subnet_of(ADDRESSES):
            pair = LinkPair(network)
            if interface == pair.gateway_end:
                return pair
    return None


def allocate_pair(taken: Collection[IPv4Address]) -> LinkPair:
    """Return the lowest pair without an address that is *taken*.

    :raises Exhausted: there is none.
    """
    for network in ADDRESSES.subnets(new_prefix=_LENGTH):
        if network[0] not in taken and network[1] not in taken:
            return LinkPair(network)
    raise Exhausted(f"an agent gateway has at most {ADDRESSES.num_addresses // 2} routers")


def unlinked_end(router: RouterId) -> NetnsLink:
    """Return the router's end of a link that is not allocated: its kernel parameters are read."""
    device, peer = link_devices(router)
    return NetnsLink(device=device, mtu=0, settings=SETTINGS, peer=peer, peer_netns="")


@frozen(kw_only=True)
class GatewayLink:
    """The link that a router has, or can have, to the agent gateway of an external network."""

    router: RouterId
    network: NetworkId
    pair: LinkPair
    mtu: int
    port: Link | None = None
    """The device of the agent gateway; None: it is not there yet."""
    has_router_end: bool = False
    end: Link | None = None
    """The gateway's end, as observed."""
    addresses: tuple[FoundAddress, ...] = field(default=(), repr=False)
    """Those of the gateway's end."""
    routes: tuple[IpRoute, ...] = field(default=(), repr=False)
    """The routes by the gateway's end."""
    sysctls: Mapping[str, str] = field(factory=dict, repr=False)
    """Parameters of the gateway's end."""

    @property
    def netns(self) -> str:
        return gateway_namespace(self.network)

    @property
    def is_complete(self) -> bool:
        """Whether both ends are there."""
        return self.has_router_end and self.end is not None

    @property
    def device(self) -> str:
        """Name of the gateway's end."""
        return link_devices(self.router)[1]

    @staticmethod
    def parameters(router: RouterId) -> dict[str, str]:
        """Return the kernel parameters that the gateway's end should have."""
        return NetnsDevice(device=link_devices(router)[1], mtu=0, settings=SETTINGS).sysctls

    def observed_in(self, found: ObservedNetns) -> GatewayLink:
        """Return the link with the gateway's end as it is in the namespace *found*."""
        mine = self.device
        return evolve(
            self,
            end=found.links.get(mine),
            addresses=tuple(each for each in found.addresses if each.address.device == mine),
            routes=tuple(
                each for each in found.routes if any(hop.device == mine for hop in each.hops)
            ),
            sysctls=found.sysctls,
        )

    def netns_link(self) -> NetnsLink:
        """Return the router's end."""
        device, peer = link_devices(self.router)
        return NetnsLink(
            device=device,
            mtu=self.mtu,
            addresses=(self.pair.router_end,),
            settings=SETTINGS,
            peer=peer,
            peer_netns=self.netns,
            is_broken=self.has_router_end != (self.end is not None),
        )

    def without_route(self, served: Translations) -> Iterator[FloatingIpId]:
        """Yield those of *served* that the gateway's end has no route to."""
        present = {each.destination for each in self.routes}
        return (id for id, each in served.items() if ip_network(each.floating) not in present)

    def differs(
        self, found: ObservedNetns, served: Translations, prepared: Container[FloatingIpId] = ()
    ) -> bool:
        """Return whether the gateway's end in *found* is not as it should be, but for sysctls."""
        link = evolve(self.observed_in(found), sysctls=self.parameters(self.router))
        return bool(link.plan_all(served, prepared))

    def plan_all(
        self, served: Translations, prepared: Container[FloatingIpId] = ()
    ) -> tuple[Stage, ...]:
        """Plan the withdrawals, then the gateway's end."""
        return (
            *self.plan_withdrawals(served, prepared),
            *self.plan_gateway_end(served, prepared),
        )

    def plan_withdrawals(
        self, served: Translations, prepared: Container[FloatingIpId] = ()
    ) -> Iterator[Stage]:
        """Plan the removal of the routes to floating IPs that are not *served* any more, or only
        *prepared*."""
        if self.is_complete:
            wanted = {each.destination for each in self._routes(served, prepared)}
            stale = [each for each in self.routes if each.destination not in wanted]
            yield from self._stages([DelRoute(each) for each in stale if by_hand(each)], {})

    def plan_gateway_end(
        self, served: Translations, prepared: Container[FloatingIpId] = ()
    ) -> Iterator[Stage]:
        """Plan the gateway's end, and then the routes to the floating IPs that are *served*, but
        for those that are only *prepared*."""
        if not served:
            return
        wanted = [*self._routes(served, prepared)]
        owners = {ip_network(each.floating): FloatingIpKey(id) for id, each in served.items()}
        device = [*self._plan_device()]
        # With its own address, which is added again, the device loses its routes.
        renewed = (each.address.interface for each in device if isinstance(each, DelAddress))
        is_bare = not self.is_complete or self.pair.gateway_end in renewed
        present = () if is_bare else self.routes
        planned = [each for each in plan_routes(wanted, present) if not isinstance(each, DelRoute)]
        yield from self._stages([*device, *planned], owners)

    def _plan_device(self) -> Iterator[NetworkOperation]:
        address = Address(device=self.device, interface=self.pair.gateway_end)
        settings = self.parameters(self.router)
        if not self.is_complete or self.end is None:
            yield SetMtu(self.device, self.mtu)
            yield from plan_sysctl(settings, {})
            yield SetUp(self.device)
            yield AddAddress(address)
            return
        if self.end.mtu != self.mtu:
            yield SetMtu(self.device, self.mtu)
        known = {name: value for name, value in settings.items() if name in self.sysctls}
        yield from plan_sysctl(known, self.sysctls)
        if not self.end.up:
            yield SetUp(self.device)
        yield from plan_addresses([address], self.addresses)

    def _routes(self, served: Translations, prepared: Container[FloatingIpId]) -> Iterator[IpRoute]:
        via = self.pair.router_end.ip
        for id, each in served.items():
            if id not in prepared:
                yield route(ip_network(each.floating), via=via, device=self.device)

    def _stages(
        self, operations: Iterable[NetworkOperation], owners: Mapping[IpNetwork, FloatingIpKey]
    ) -> Iterator[Stage]:
        made = []
        for each in operations:
            owner: RouterDriverKey = part_key(self.router)
            if isinstance(each, AddRoute):
                owner = owners.get(each.route.destination, owner)
            step = ChangeNetwork(netns=self.netns, operation=each)
            made.append(Operation(step.backend, step.text, frozenset({owner}), step))
        if made:
            yield Stage(made)
