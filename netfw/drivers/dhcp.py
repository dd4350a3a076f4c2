"""DhcpDriver: gives the ports of a network their addresses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final

from attrs import field, frozen

from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.model.port import FixedIp
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress, IpInterface, Mac, as_interface, no_scope
from netfw.model.values.dhcp_option import DhcpOption
from netfw.model.values.ids import NetworkId, PortId, SubnetId

METADATA_ADDRESSES: Final[Mapping[int, IpInterface]] = {
    4: as_interface("169.254.169.254/32"),
    6: as_interface("fe80::a9fe:a9fe/128"),
}
"""Addresses of the metadata service, by family."""


@frozen(kw_only=True)
class ServerPort:
    """The port of the DHCP server of a network on this host."""

    id: PortId
    mac: Mac = field(converter=Mac)
    addresses: tuple[IpInterface, ...] = field(validator=no_scope)
    """One on every served subnet, or those of the gateways where the fabric routes."""


@frozen(kw_only=True)
class DhcpNetwork:
    """A network to serve on this host.  ``NetworkKey`` is its key."""

    server: ServerPort
    subnets: tuple[Subnet, ...]
    """All subnets; those without DHCP matter for ``netfw.drivers.support.classless_routes``.  A
    subnet that names address zero as its name server has none."""
    mtu: int
    dns_domain: str = ""
    options: tuple[DhcpOption, ...] = ()
    """Options for every port.  A port's own value of the same option takes precedence, under any of
    its names or its number: see ``netfw.drivers.support.dhcp_options``."""
    peers: tuple[IpInterface, ...] = field(default=(), validator=no_scope)
    """Other DHCP servers of the network.  Where a subnet names no name servers they serve as such,
    beside this server if it answers DNS queries."""
    metadata_for: frozenset[SubnetId] = frozenset()
    """Subnets whose instances reach the metadata service through this server's port."""

    @property
    def addresses(self) -> tuple[IpInterface, ...]:
        """Addresses of the server's device: those of the port, and those of the metadata service in
        both families where instances reach it through this port.  Link-local addresses need no
        subnet; a host without IPv6 leaves out the IPv6 address."""
        if not self.metadata_for:
            return self.server.addresses
        return (*self.server.addresses, *METADATA_ADDRESSES.values())

    @property
    def gateways(self) -> tuple[IpAddress, ...]:
        """Gateways of default routes: per family, the first one of a subnet with DHCP."""
        served = [each for each in self.subnets if each.enable_dhcp and each.gateway is not None]
        first = {each.ip_version: each.gateway for each in reversed(served)}
        return tuple(gateway for _, gateway in sorted(first.items()) if gateway is not None)


@frozen(kw_only=True)
class DhcpPort:
    """A port that may request its addresses.  ``PortKey`` is its key."""

    network: NetworkId
    mac: Mac = field(converter=Mac)
    fixed_ips: tuple[FixedIp, ...]
    hostname: str = ""
    """Empty: derived from the address."""
    domain: str = ""
    """Empty: the network's."""
    options: tuple[DhcpOption, ...] = ()


@frozen(kw_only=True)
class DhcpLocation:
    """The place on this host where a network is served."""

    netns: str
    device: str
    """Device of the server in that namespace."""


DhcpEntry = tuple[NetworkKey, DhcpNetwork] | tuple[PortKey, DhcpPort]
"""A key and a value that belongs to it."""
DhcpKey = NetworkKey | PortKey
DhcpValue = DhcpNetwork | DhcpPort


class DhcpCapability(Capability):
    """Capabilities of DHCP drivers."""

    DHCPV6 = "dhcpv6"
    """The driver advertises IPv6 prefixes and hands out IPv6 addresses."""


class DhcpDriver(HostDriver[DhcpKey, DhcpValue]):
    """Serves DHCP on the networks that are scheduled to this host.

    Called by the DHCP agent, outside any transaction.  An update concerns one or several networks,
    and a network is never in two calls at once; calls for different networks may run in parallel.
    The server's port exists before the network is put; its device is made with the host's
    ``InterfaceDriver``.  Promises beyond those of :class:`HostDriver`:

    1. A port whose network is put gets its own addresses, gateway, routes, name servers, MTU and
       options; no other port gets them.  A port without its network waits.
    2. One more, changed or dropped port costs the same on a network of ten ports and of five
       thousand, and interrupts no client.
    3. The address of a dropped port can be handed out again at once.
    4. Leases outlive a restart of the driver, the agent or the server process: every client keeps
       its address.
    5. A server process that dies is restarted, and the driver sends ``ProcessDied``.
    6. The device has exactly the ``addresses`` of the network, and default routes to its
       ``gateways``, also to a gateway outside its subnet.
    7. A dropped network leaves no process, device, namespace or file.
    8. A host name that is no DNS name, and an option whose name or value could be read as two, are
       refused by field as ``InvalidInput`` for their key; they reach no file of any format, since
       clients pass them to scripts.
    9. Only a driver that declares ``DhcpCapability.DHCPV6`` serves IPv6; for any other, the IPv6
       addresses and subnets of a port do no harm to its IPv4 ones.
    10. A subnet, gateway, option or name that promise 8 admits and that cannot be served is left
        out alone; the rest is served, and the key fails with ``PartlyInvalid`` by field.  See
        ``netfw.drivers.support.unsupported_dhcp``.
    """

    GROUP: ClassVar[str] = "netfw.dhcp_drivers"
    VERSION: ClassVar[int] = 2
    CAPABILITY_TYPES: ClassVar[tuple[type[Capability], ...]] = (HostCapability, DhcpCapability)

    @abstractmethod
    def describe(self) -> DriverInfo[HostCapability | DhcpCapability]:
        """Return the name of the driver and its capabilities.  Touches nothing."""

    def location(self, network: NetworkId, server: ServerPort) -> DhcpLocation | None:
        """Return where *network* is or will be served from *server*, so that a metadata proxy can
        run there.  Pure.  ``None``, the default: no namespace in which a proxy could run.
        """
        return None
