"""DhcpDriver: gives the ports of a network their addresses."""

from __future__ import annotations

from typing import ClassVar

from attrs import field, frozen

from netfw.drivers.host_driver import HostDriver
from netfw.drivers.keys import NetworkKey, PortKey
from netfw.model.address import IpInterface, Mac, no_scope
from netfw.model.dhcp_option import DhcpOption
from netfw.model.ids import NetworkId, PortId, SubnetId
from netfw.model.port import FixedIp
from netfw.model.subnet import Subnet


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
    """All of them: those without DHCP matter for routes."""
    mtu: int
    dns_domain: str = ""
    options: tuple[DhcpOption, ...] = ()
    """For every port; a port's own of the same name win."""
    peers: tuple[IpInterface, ...] = field(default=(), validator=no_scope)
    """Other DHCP servers of the network: its name servers where a subnet names none."""
    metadata_for: frozenset[SubnetId] = frozenset()
    """Subnets whose instances reach the metadata service through this server's port."""


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
class DhcpPlace:
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
    6. The device has exactly the addresses and routes that the network asks for, and the metadata
       address where ``metadata_for`` is not empty.
    7. A dropped network leaves no process, device, namespace or file.
    8. Text that would be more than one value in the server's configuration is refused by name, as
       ``InvalidInput`` for its key, and never reaches a file.
    9. IPv6 is asked only of a driver that declares ``Capability.DHCPV6``; for any other, a port's
       IPv6 addresses and subnets do no harm to its IPv4 ones.
    """

    GROUP: ClassVar[str] = "netfw.dhcp_drivers"
    VERSION: ClassVar[int] = 1

    def place(self, network: NetworkId, server: ServerPort) -> DhcpPlace | None:
        """Where *network* is, or will be, served from *server*, so that a metadata proxy can be
        put there.  Pure.  ``None``, the default: nowhere that a proxy could run.
        """
        return None
