"""A router namespace as desired.  Pure values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from attrs import field, frozen

from netfw.drivers.interface import Attachment
from netfw.linux.ip.sysctl_names import device_parameter
from netfw.linux.ip.values import IpRoute, IpRule
from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.model.values.address import IpAddress, IpInterface, Mac, no_scope
from netfw.model.values.device_names import check_namespace_name
from netfw.model.values.ids import PortId


@frozen(kw_only=True)
class NetnsDevice:
    """A device with its addresses and kernel parameters."""

    device: str
    mtu: int
    addresses: tuple[IpInterface, ...] = field(default=(), validator=no_scope)
    """All addresses of the device, except the link-local one that the kernel assigns and those
    with a lifetime."""
    virtual_addresses: frozenset[IpInterface] = field(default=frozenset(), validator=no_scope)
    """Addresses of VRRP, which keepalived adds and removes: they may be there or not."""
    settings: Mapping[str, str] = field(factory=dict)
    """Kernel parameters of the device by family and name: ``{"ipv6/accept_ra": "0"}``; those of
    its neighbour table: ``{"ipv4/neigh/proxy_delay": "0"}``."""
    proxied: frozenset[IpAddress] = field(default=frozenset(), validator=no_scope)
    """Addresses behind the router for which the device answers."""
    owners: Mapping[IpInterface, Hashable] = field(factory=dict)
    """Keys that fail when their address is refused; others fail the router."""

    @property
    def sysctls(self) -> dict[str, str]:
        """The kernel parameters by their whole names."""
        parameters = (name.split("/", 1) for name in self.settings)
        return {
            device_parameter(family, self.device, parameter): value
            for (family, parameter), value in zip(parameters, self.settings.values(), strict=True)
        }


@frozen(kw_only=True)
class NetnsPort(NetnsDevice):
    """A port of a router, which the interface driver plugs."""

    port: PortId
    mac: Mac = field(converter=Mac)

    def attachment(self, netns: str) -> Attachment:
        """Return the attachment to request from the interface driver.

        :raises ValueError: a name or MTU that cannot be.
        """
        return Attachment(device=self.device, mac=self.mac, mtu=self.mtu, netns=netns)


@frozen(kw_only=True)
class NetnsLink(NetnsDevice):
    """One end of a veth pair, whose other end is in another router namespace."""

    peer: str
    peer_netns: str
    is_broken: bool = False
    """Whether the other end was observed not to be there, so that the pair is made anew."""


@frozen(kw_only=True)
class RouterNetns:
    """A namespace that routes.  What can steer its packets and is not named here is removed.

    That is: devices, addresses (also of the loopback, or with a peer), routes of all tables and
    policy rules with whatever attributes, rules and policies of the built-in iptables chains.

    These stay:

    1. routes and policy rules with another protocol than unspecified, boot or static: the kernel's,
       and those of routing daemons that an extension or an operator runs in the namespace, unless
       their protocol is one of *removed_protocols*;
    2. routes by router advertisements, while the device accepts these (``ipv6/accept_ra``);
    3. addresses with a lifetime, of DHCP and prefix delegation clients, and the link-local address
       that the kernel makes;
    4. chains that no built-in chain jumps to: no packet enters them;
    5. what is not read: neighbours but for proxies, tables of nft itself and of the other iptables
       backend, tc, XDP and xfrm.

    :raises ValueError: a name or MTU that cannot be, or two ports with one device.
    """

    netns: str
    ports: tuple[NetnsPort, ...] = ()
    links: tuple[NetnsLink, ...] = ()
    kept_prefix: str | None = None
    """Devices with this prefix stay, with their addresses and the routes by them: other namespaces
    have the other ends, and what belongs to these."""
    routes: tuple[IpRoute, ...] = ()
    """Routes of any table."""
    policy_rules: tuple[IpRule, ...] = ()
    sysctls: Mapping[str, str] = field(factory=dict)
    """Kernel parameters of the namespace; those that the kernel lacks are omitted."""
    chains: Mapping[ChainKey, Chain] = field(factory=dict)
    """Packet filter rules of both families and all tables."""
    removed_protocols: frozenset[int] = frozenset()
    """Protocols of routing daemons that do not run in the namespace any more."""
    forget_connections: bool = True
    """Whether the tracked connections of a removed address are removed."""
    moved_addresses: frozenset[IpAddress] = frozenset()
    """Addresses that another host may have when they are removed here: their connections stay."""

    def __attrs_post_init__(self) -> None:
        check_namespace_name(self.netns)
        for port in self.ports:
            port.attachment(self.netns)
        devices = [each.device for each in self.devices]
        twice = {device for device in devices if devices.count(device) > 1}
        if twice:
            raise ValueError(f"{self.netns}: two ports with the device {', '.join(sorted(twice))}")

    @property
    def devices(self) -> tuple[NetnsDevice, ...]:
        """Its ports and links."""
        return (*self.ports, *self.links)

    def keeps(self, device: str | None) -> bool:
        """Return whether a device that is not named here stays."""
        return (
            device is not None
            and self.kept_prefix is not None
            and device.startswith(self.kept_prefix)
        )
