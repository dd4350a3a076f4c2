"""Networks and routers for the suite of router drivers."""

from __future__ import annotations

import itertools
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any
from uuid import uuid4

from attrs import evolve, field, frozen

from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.drivers.values.router_values import (
    FloatingIpNat,
    FullRouter,
    Gateway,
    HighAvailability,
    RouterDriverKey,
    RouterDriverValue,
    RouterPort,
    RouterState,
)
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress, IpInterface, IpNetwork, Mac
from netfw.model.values.ids import FloatingIpId, NetworkId, PortId, RouterId, SubnetId

_numbers = itertools.count(1)


def next_mac() -> Mac:
    """Return a MAC address that no other port or machine of the suite has."""
    low = next(_numbers).to_bytes(3)
    return Mac(f"fa:16:3e:{low.hex(':')}")


@frozen(kw_only=True)
class RoutedNetwork:
    """A network with an IPv4 and an IPv6 subnet."""

    id: NetworkId = field(factory=lambda: NetworkId(uuid4()))
    blocks: tuple[IpNetwork, ...]
    mtu: int = 1500

    def address(self, number: int, version: int = 4) -> IpAddress:
        """Return an address of the first block of a family."""
        return next(block for block in self.blocks if block.version == version)[number]

    def interfaces(self, number: int) -> tuple[IpInterface, ...]:
        """Return the address *number* of every block."""
        return tuple(ip_interface((block[number], block.prefixlen)) for block in self.blocks)

    def gateways(self) -> tuple[IpAddress, ...]:
        """Return the addresses of a router port on it, one per family."""
        return tuple(self.address(1, version) for version in (4, 6))

    def port(self, number: int = 1, **values: Any) -> RouterPort:
        """Return a new port of a router, with the address *number* of every block."""
        subnets = tuple(
            Subnet(id=SubnetId(uuid4()), network_id=self.id, cidr=block, gateway=block[number])
            for block in self.blocks
        )
        return RouterPort(
            **{
                "id": PortId(uuid4()),
                "network": self.id,
                "mac": next_mac(),
                "addresses": self.interfaces(number),
                "subnets": subnets,
                "mtu": self.mtu,
                **values,
            }
        )


def make_net(number: int = 1, **values: Any) -> RoutedNetwork:
    """Return a network of a project."""
    blocks = ip_network(f"10.0.{number}.0/24"), ip_network(f"fd00:{number:x}::/64")
    return RoutedNetwork(blocks=blocks, **values)


def make_external(**values: Any) -> RoutedNetwork:
    """Return an external network; its own router has the first addresses."""
    return RoutedNetwork(
        blocks=(ip_network("203.0.113.0/24"), ip_network("2001:db8:ff::/64")), **values
    )


@frozen(kw_only=True)
class Site:
    """A router between networks, with a gateway to an external one."""

    router: RouterId = field(factory=lambda: RouterId(uuid4()))
    nets: tuple[RoutedNetwork, ...]
    external: RoutedNetwork
    state: RouterState

    @property
    def key(self) -> RouterKey:
        return RouterKey(self.router)

    @property
    def full(self) -> FullRouter:
        assert self.state.full is not None
        return self.state.full

    @property
    def gateway(self) -> Gateway:
        assert self.full.gateway is not None
        return self.full.gateway

    @property
    def ports(self) -> tuple[RouterPort, ...]:
        """All ports, that on the HA network included."""
        ha = self.full.ha
        return (*self.shared_ports, *(() if ha is None else (ha.port,)))

    @property
    def shared_ports(self) -> tuple[RouterPort, ...]:
        """Interfaces and gateway, which each host of a highly available router has."""
        gateway = self.full.gateway
        return (*self.full.interfaces, *(() if gateway is None else (gateway.port,)))

    @property
    def outside_address(self) -> IpAddress:
        """The IPv4 address of the gateway."""
        return self.gateway.port.addresses[0].ip

    def wanted(self, *floating: Floating) -> dict[RouterDriverKey, RouterDriverValue]:
        """Return the router and *floating* as entries of an update."""
        entries: dict[RouterDriverKey, RouterDriverValue] = {self.key: self.state}
        entries.update({each.key: each.value for each in floating})
        return entries

    def floating(self, number: int, fixed: IpAddress) -> Floating:
        """Return a new floating IP: the external address *number* for the address *fixed*."""
        return Floating(
            value=FloatingIpNat(
                router=self.router,
                external_network=self.external.id,
                floating_address=self.external.address(number),
                fixed_address=fixed,
            )
        )

    def with_full(self, **changes: Any) -> Site:
        """Return the site with another full part."""
        return evolve(self, state=evolve(self.state, full=evolve(self.full, **changes)))

    def with_gateway(self, **changes: Any) -> Site:
        """Return the site with another gateway."""
        return self.with_full(gateway=evolve(self.gateway, **changes))

    def with_state(self, **changes: Any) -> Site:
        """Return the site with another state of the router."""
        return evolve(self, state=evolve(self.state, **changes))


@frozen(kw_only=True)
class Floating:
    """A floating IP."""

    id: FloatingIpId = field(factory=lambda: FloatingIpId(uuid4()))
    value: FloatingIpNat

    @property
    def key(self) -> FloatingIpKey:
        return FloatingIpKey(self.id)

    @property
    def address(self) -> IpAddress:
        return self.value.floating_address

    def to(self, fixed: IpAddress) -> Floating:
        """Return the floating IP, moved to another fixed address."""
        return evolve(self, value=evolve(self.value, fixed_address=fixed))


def make_site(
    *nets: RoutedNetwork, external: RoutedNetwork | None = None, number: int = 10, **state: Any
) -> Site:
    """Return a router with an interface on each of *nets* (two by default) and a gateway with the
    external address *number*."""
    inside = nets or (make_net(1), make_net(2))
    outside = external or make_external()
    gateway = Gateway(
        port=outside.port(number), next_hops=(outside.address(1), outside.address(1, 6))
    )
    full = FullRouter(interfaces=tuple(net.port() for net in inside), gateway=gateway)
    return Site(nets=inside, external=outside, state=RouterState(full=full, **state))


def make_ha_sites(site: Site, *priorities: int) -> tuple[Site, ...]:
    """Return *site* as each host of a highly available router has it, one host per priority."""
    network = RoutedNetwork(blocks=(ip_network("169.254.192.0/18"),))
    ports = [network.port(number) for number in range(1, len(priorities) + 1)]
    return tuple(
        site.with_full(
            ha=HighAvailability(
                port=port,
                vrid=7,
                priority=priority,
                peers=tuple(each.addresses[0].ip for each in ports if each is not port),
            )
        )
        for port, priority in zip(ports, priorities, strict=True)
    )


def address(text: str) -> IpAddress:
    """Return an address."""
    return ip_address(text)
