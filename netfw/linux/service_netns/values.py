"""A station: what is wanted of it, and what is there.  Pure values."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from netfw.drivers.interface import Attachment
from netfw.linux.ip.values import FoundAddress, Link, Route
from netfw.linux.iptables.mirror import Mirror
from netfw.model.address import IpAddress, IpInterface, Mac, no_scope
from netfw.model.ids import PortId

IPV6_MTU = 1280
"""What a link has to carry for IPv6; below it the kernel takes IPv6 from the device."""

PAIR = "veth"
"""Kind of a device of which the switch has the other end."""


@frozen(kw_only=True)
class ServiceNetns:
    """A namespace of a service, and the port through which it is on a network.

    :raises ValueError: a name, MTU or address that cannot be, or two gateways of one family.
    """

    netns: str
    port: PortId
    device: str
    """See :meth:`netfw.drivers.interface.InterfaceDriver.device_name`."""
    mac: Mac = field(converter=Mac)
    mtu: int
    addresses: tuple[IpInterface, ...] = field(validator=no_scope)
    """All that the device shall have; its automatic link-local one is the kernel's business."""
    gateways: tuple[IpAddress, ...] = field(default=(), validator=no_scope)
    """Where everything else goes, at most one of each family.  One of the station's own addresses
    is no way out, and makes no route."""
    fill_checksums: bool = False
    """Whether answers of DHCP (UDP to port 68) get their checksum in software."""
    forget_connections: bool = False
    """Whether connections from and to an address that is taken away are no longer tracked."""

    def __attrs_post_init__(self) -> None:
        _ = self.attachment
        families = [gateway.version for gateway in self.gateways]
        if len(set(families)) != len(families):
            text = ", ".join(map(str, self.gateways))
            raise ValueError(f"{self.netns}: one gateway of each family, not {text}")

    @property
    def attachment(self) -> Attachment:
        """What the interface driver is asked for."""
        return Attachment(device=self.device, mac=self.mac, mtu=self.mtu, netns=self.netns)


@frozen(kw_only=True)
class ObservedNetns:
    """The observed contents of a service namespace."""

    netns: str
    exists: bool = False
    links: Mapping[str, Link] = field(factory=dict)
    addresses: tuple[FoundAddress, ...] = ()
    routes: tuple[Route, ...] = ()
    """Of the main table."""
    sysctls: Mapping[str, str] = field(factory=dict)
    """Those that matter and exist."""
    rules: Mirror | None = None
    """The station's chains of the IPv4 mangle table; None: they cannot be read."""
    no_ipv6: str | None = None
    """Why the namespace is without IPv6, if it is."""
    present: frozenset[PortId] | None = None
    """The ports that the interface driver has on this host; None: it was not asked, because
    nothing seems to be wrong, or does not answer."""
    lost: frozenset[str] = frozenset()
    """Devices that look as before, and whose ports somebody took from the switch."""


def why_without_ipv6(wanted: ServiceNetns, found: ObservedNetns) -> str | None:
    """Why the station gets neither its IPv6 addresses nor its IPv6 gateway; None when it does.

    It is served IPv4 all the same; the owner tells the operator.
    """
    if wanted.mtu < IPV6_MTU:
        return f"IPv6 needs an MTU of {IPV6_MTU}, and {wanted.device} has {wanted.mtu}"
    return found.no_ipv6
