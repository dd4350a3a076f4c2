"""Factories of the DHCP suite: networks and ports, all different."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_interface
from typing import Any
from uuid import uuid4

from attrs import evolve, frozen

from netfw.drivers.dhcp import DhcpNetwork, DhcpPort, DhcpValue, ServerPort
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.model.port import FixedIp
from netfw.model.subnet import Ipv6Mode, Subnet
from netfw.model.values.address import IpAddress, IpInterface, Mac, eui64
from netfw.model.values.ids import NetworkId, PortId, SubnetId

MTU = 1450
_numbers = itertools.count(1)  # no two tests have addresses alike: servers and switches remember
GATEWAY, SERVER, DNS, FIRST = 1, 2, 5, 10
"""Places in a subnet."""


@frozen(kw_only=True)
class Tenant:
    """A port and its key."""

    port: PortId
    value: DhcpPort

    @property
    def key(self) -> PortKey:
        return PortKey(self.port)

    @property
    def mac(self) -> Mac:
        return self.value.mac

    @property
    def addresses(self) -> tuple[IpAddress, ...]:
        return tuple(fixed.address for fixed in self.value.fixed_ips)

    @property
    def ip(self) -> IPv4Address:
        """Its first IPv4 address."""
        return next(address for address in self.addresses if isinstance(address, IPv4Address))

    @property
    def ip6(self) -> IPv6Address:
        """Its first IPv6 address."""
        return next(address for address in self.addresses if isinstance(address, IPv6Address))

    def but(self, **changes: Any) -> Tenant:
        """Return the same port, changed."""
        return evolve(self, value=evolve(self.value, **changes))


@frozen(kw_only=True)
class ServedNetwork:
    """A network and its key."""

    id: NetworkId
    value: DhcpNetwork

    @property
    def key(self) -> NetworkKey:
        return NetworkKey(self.id)

    @property
    def subnets(self) -> tuple[Subnet, ...]:
        return self.value.subnets

    def but(self, **changes: Any) -> ServedNetwork:
        """Return the same network, changed."""
        return evolve(self, value=evolve(self.value, **changes))

    def with_subnet(self, at: int, **changes: Any) -> ServedNetwork:
        """Return the same network with one of its subnets changed."""
        subnets = list(self.subnets)
        subnets[at] = evolve(subnets[at], **changes)
        return self.but(subnets=tuple(subnets))

    def served_from(self, index: int) -> ServedNetwork:
        """Return the same network as another host serves it: with its own port and address."""
        return self.but(server=server_port(self.subnets, index))

    def tenant(self, index: int = FIRST, *, on: Iterable[int] = (0,), **more: Any) -> Tenant:
        """Return a new port with the address at *index* of each of the subnets *on*."""
        mac = new_mac()
        fixed = tuple(_fixed(self.subnets[at], index, mac) for at in on)
        value = DhcpPort(network=self.id, mac=mac, fixed_ips=fixed)
        return Tenant(port=PortId(uuid4()), value=evolve(value, **more))


def wanted(*things: ServedNetwork | Tenant) -> dict[Any, DhcpValue]:
    """Return the desired values."""
    return {thing.key: thing.value for thing in things}


def new_mac() -> Mac:
    return Mac(f"fa:16:3e:{next(_numbers).to_bytes(3).hex(':')}")


def make_network(*subnets: Subnet, **more: Any) -> ServedNetwork:
    """Return a new network of *subnets*, which become its own; by default of one IPv4 subnet."""
    id = NetworkId(uuid4())
    own = tuple(evolve(subnet, network_id=id) for subnet in subnets or (a_subnet(),))
    value = DhcpNetwork(server=server_port(own), subnets=own, mtu=MTU, dns_domain="example.org")
    return ServedNetwork(id=id, value=evolve(value, **more))


def a_subnet(**more: Any) -> Subnet:
    """Return a block of IPv4 addresses unique to the test, with a gateway and a name server."""
    block = IPv4Network((IPv4Address("10.0.0.0") + (next(_numbers) << 8), 24))
    plain = Subnet(
        id=SubnetId(uuid4()),
        network_id=NetworkId(uuid4()),
        cidr=block,
        gateway=block[GATEWAY],
        dns_nameservers=(block[DNS], block[DNS + 1]),
    )
    return evolve(plain, **more)


def a_subnet6(mode: Ipv6Mode, **more: Any) -> Subnet:
    """Return a block of IPv6 addresses of this *mode*, advertised by the server."""
    block = IPv6Network((IPv6Address("fd00::") + (next(_numbers) << 64), 64))
    plain = Subnet(
        id=SubnetId(uuid4()),
        network_id=NetworkId(uuid4()),
        cidr=block,
        gateway=block[GATEWAY],
        dns_nameservers=(block[DNS],),
        ipv6_ra_mode=mode,
        ipv6_address_mode=mode,
    )
    return evolve(plain, **more)


def server_port(subnets: Iterable[Subnet], index: int = SERVER) -> ServerPort:
    """Return a port with an address on every one of *subnets* that is served."""
    mac = new_mac()
    addresses = tuple(_own(subnet, index, mac) for subnet in subnets if subnet.enable_dhcp)
    return ServerPort(id=PortId(uuid4()), mac=mac, addresses=addresses)


def address_on(subnet: Subnet, value: DhcpNetwork) -> IpAddress:
    """Return the server's own address on *subnet*."""
    return next(interface.ip for interface in value.server.addresses if interface.ip in subnet.cidr)


def _own(subnet: Subnet, index: int, mac: Mac) -> IpInterface:
    return ip_interface(f"{_fixed(subnet, index, mac).address}/{subnet.cidr.prefixlen}")


def _fixed(subnet: Subnet, index: int, mac: Mac) -> FixedIp:
    """Return the address at *index*, or the one that an instance derives from its MAC."""
    block = subnet.cidr
    automatic = subnet.ipv6_address_mode in (Ipv6Mode.SLAAC, Ipv6Mode.STATELESS)
    if isinstance(block, IPv6Network) and automatic:
        return FixedIp(subnet_id=subnet.id, address=eui64(block, mac))
    return FixedIp(subnet_id=subnet.id, address=block[index])
