"""A service namespace, desired and observed.  Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from attrs import field, frozen

from netfw.drivers.interface import Attachment
from netfw.linux.ip.values import FoundAddress, IpRoute, IpRule, Link, Neighbour
from netfw.linux.iptables.mirror import ChainMirror
from netfw.linux.iptables.plan import Spelling
from netfw.model.values.address import IpAddress, IpInterface, Mac, no_scope
from netfw.model.values.ids import PortId

IPV6_MTU = 1280
"""Minimum MTU for IPv6; below it the kernel disables IPv6 on the device."""

PAIR = "veth"
"""Kind of a device whose other end is in the switch."""


class SizedDevice(Protocol):
    """A device and its MTU."""

    @property
    def device(self) -> str: ...
    @property
    def mtu(self) -> int: ...


class PortDevice(SizedDevice, Protocol):
    """A port and its device: a service namespace has one, a router several."""

    @property
    def port(self) -> PortId: ...
    @property
    def mac(self) -> Mac: ...


@frozen(kw_only=True)
class ServiceNetns:
    """A namespace of a service, and the port that connects it to a network.

    :raises ValueError: a name, MTU or address that cannot be, or two gateways of one family.
    """

    netns: str
    port: PortId
    device: str
    """See :meth:`netfw.drivers.interface.InterfaceDriver.device_name`."""
    mac: Mac = field(converter=Mac)
    mtu: int
    addresses: tuple[IpInterface, ...] = field(validator=no_scope)
    """All addresses of the device, except the link-local one that the kernel assigns."""
    gateways: tuple[IpAddress, ...] = field(default=(), validator=no_scope)
    """Default gateways, at most one of each family.  One of the namespace's own addresses makes
    no route."""
    fill_checksums: bool = False
    """Whether DHCP replies (UDP to port 68) get their checksum in software."""
    forget_connections: bool = False
    """Whether the tracked connections of a removed address are removed."""

    def __attrs_post_init__(self) -> None:
        _ = self.attachment
        families = [gateway.version for gateway in self.gateways]
        if len(set(families)) != len(families):
            text = ", ".join(map(str, self.gateways))
            raise ValueError(f"{self.netns}: one gateway of each family, not {text}")

    @property
    def attachment(self) -> Attachment:
        """Attachment to request from the interface driver."""
        return Attachment(device=self.device, mac=self.mac, mtu=self.mtu, netns=self.netns)


@frozen(kw_only=True)
class ObservedNetns:
    """Observed state of a service namespace; made by :meth:`ServiceNetnsExecutor.observe`."""

    netns: str
    exists: bool = False
    has_remains: bool = False
    """A file of its name refers to no namespace: a process was killed while it made or deleted the
    namespace."""
    links: Mapping[str, Link] = field(factory=dict)
    addresses: tuple[FoundAddress, ...] = ()
    routes: tuple[IpRoute, ...] = ()
    """Routes of the main table; of a router, the static ones of all tables."""
    policy_rules: tuple[IpRule, ...] = ()
    """Rules of the policy routing database; of a router only."""
    proxies: tuple[Neighbour, ...] = ()
    """Addresses that are answered for others; of a router only."""
    sysctls: Mapping[str, str] = field(factory=dict)
    """Kernel parameters that matter here and exist."""
    rules: ChainMirror | None = None
    """Chains of the IPv4 mangle table, or of all tables of a router; None: they cannot be read."""
    devices_only: bool = False
    """Kernel parameters and packet filter rules were not read: nothing is planned for them."""
    spelling: Spelling = field(factory=dict)
    """How iptables prints rules that it spells otherwise."""
    no_ipv6: str | None = None
    """Reason why the namespace has no IPv6, if so."""
    present: frozenset[PortId] | None = None
    """Ports that the interface driver has on this host; None: it was not queried, because
    nothing seems to be wrong, or it does not answer."""
    lost: frozenset[str] = frozenset()
    """Devices that look as before, and whose ports were removed from the switch."""


def why_without_ipv6(wanted: SizedDevice, found: ObservedNetns) -> str | None:
    """Return why the device gets no IPv6 addresses and routes; None if it gets them.

    IPv4 is served all the same; the owner reports the reason to the operator.
    """
    if wanted.mtu < IPV6_MTU:
        return f"IPv6 needs an MTU of {IPV6_MTU}, and {wanted.device} has {wanted.mtu}"
    return found.no_ipv6
