"""DhcpDriver: gives the ports of a network their addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from attrs import field, frozen

from netfw.drivers.host_driver import HostDriver
from netfw.drivers.keys import NetworkKey, PortKey
from netfw.model.address import IpAddress, IpInterface, Mac, as_interface, no_scope
from netfw.model.dhcp_option import DhcpOption
from netfw.model.ids import NetworkId, PortId, SubnetId
from netfw.model.port import FixedIp
from netfw.model.subnet import Subnet

METADATA_ADDRESSES: Final[Mapping[int, IpInterface]] = {
    4: as_interface("169.254.169.254/32"),
    6: as_interface("fe80::a9fe:a9fe/128"),
}
"""Of the metadata service, by family."""


@frozen(kw_only=True)
class ServerPort:
    """The port from which a network is served on this host."""

    id: PortId
    mac: Mac = field(converter=Mac)
    addresses: tuple[IpInterface, ...] = field(validator=no_scope)
    """One on every subnet that is served, or the gateways' where the fabric routes."""


@frozen(kw_only=True)
class DhcpNetwork:
    """A network to serve on this host.  ``NetworkKey`` is its key."""

    server: ServerPort
    subnets: tuple[Subnet, ...]
    """All of them: those without DHCP matter for routes
    (``netfw.drivers.support.classless_routes``).  One that
    names address zero as its name server has none."""
    mtu: int
    dns_domain: str = ""
    options: tuple[DhcpOption, ...] = ()
    """For every port; a port's own of the same option win, by whichever of its names or by its
    number either is called.  What there is to know of them is in
    ``netfw.drivers.support.dhcp_options``."""
    peers: tuple[IpInterface, ...] = field(default=(), validator=no_scope)
    """Other DHCP servers of the network: its name servers where a subnet names none, beside this
    one if it answers questions about names."""
    metadata_for: frozenset[SubnetId] = frozenset()
    """Subnets whose instances reach the metadata service through this server's port."""

    @property
    def addresses(self) -> tuple[IpInterface, ...]:
        """All that the server's device has: the port's own, and where instances reach the metadata
        service through it, that service's own of both families: link-local addresses are there
        without a subnet.  A host without IPv6 leaves out what it cannot have."""
        if not self.metadata_for:
            return self.server.addresses
        return (*self.server.addresses, *METADATA_ADDRESSES.values())

    @property
    def gateways(self) -> tuple[IpAddress, ...]:
        """Of the device's default routes: in each family that of the first subnet with DHCP that
        has one."""
        served = [each for each in self.subnets if each.enable_dhcp and each.gateway is not None]
        first = {each.ip_version: each.gateway for each in reversed(served)}
        return tuple(gateway for _, gateway in sorted(first.items()) if gateway is not None)


@frozen(kw_only=True)
class DhcpPort:
    """A port that may ask for its addresses.  ``PortKey`` is its key."""

    network: NetworkId
    mac: Mac = field(converter=Mac)
    fixed_ips: tuple[FixedIp, ...]
    hostname: str = ""
    """Empty: made from the address."""
    domain: str = ""
    """Empty: the network's."""
    options: tuple[DhcpOption, ...] = ()


@frozen(kw_only=True)
class DhcpLocation:
    """Where on this host a network is served."""

    netns: str
    device: str
    """The server's own, in that namespace."""


DhcpKey = NetworkKey | PortKey
DhcpValue = DhcpNetwork | DhcpPort


class DhcpDriver(HostDriver[DhcpKey, DhcpValue]):
    """Serves DHCP on the networks that are scheduled to this host.

    Called by the DHCP agent, outside any transaction; one update concerns one network or several,
    and a network is never in two calls at once, so calls for different networks may run in
    parallel: this contract alone allows that.  The server's port exists before the network is
    put; its device is made with the host's ``InterfaceDriver``.  Promises beyond those of
    :class:`HostDriver`:

    1. A port that was put, of a network that was put, gets its own addresses, gateway, routes,
       name servers, MTU and options, and nobody else gets them.  A port without its network waits.
    2. One more, changed or dropped port costs the same on a network of ten ports and of five
       thousand, and interrupts nobody.
    3. The address of a dropped port can be handed out again at once.
    4. Leases live on when the driver, the agent or the server process is restarted: no client is
       refused its own address.
    5. A server process that dies is started again, and a ``ProcessDied`` says so.
    6. The device has exactly the ``addresses`` of the network, and default routes to its
       ``gateways``: one that lies outside its subnet is reached nevertheless.
    7. A dropped network leaves no process, device, namespace or file.
    8. A name that is no DNS name, and an option whose name or value could be more than one in
       anybody's files, are refused by field as ``InvalidInput`` for their key, and never reach a
       file, whatever the driver's own look like: clients hand them to scripts.
    9. IPv6 is asked only of a driver that declares ``Capability.DHCPV6``; for any other, a port's
       IPv6 addresses and subnets do no harm to its IPv4 ones.
    """

    GROUP: ClassVar[str] = "netfw.dhcp_drivers"
    VERSION: ClassVar[int] = 1

    def location(self, network: NetworkId, server: ServerPort) -> DhcpLocation | None:
        """Where *network* is, or will be, served from *server*, so that a metadata proxy can be
        put there.  Pure.  ``None``, the default: nowhere that a proxy could run.
        """
        return None
