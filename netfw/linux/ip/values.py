"""Network of a namespace: links, addresses, routes, rules, neighbours.  Pure values.

Devices are identified by name, not by index: an index may mean another device after the next
restart.  Names are not validated here, because these values also hold observed state; operations
validate them.
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Iterable
from typing import Any

from attrs import Factory, field, frozen

from netfw.model.values.address import (
    IpAddress,
    IpInterface,
    IpNetwork,
    Mac,
    as_address,
    as_interface,
    maybe_address,
    unscoped,
)

DEFAULT_TABLE, MAIN_TABLE, LOCAL_TABLE = 253, 254, 255
PROTOCOL_UNSPEC = 0
PROTOCOL_KERNEL = 2
PROTOCOL_BOOT = 3
PROTOCOL_STATIC = 4
PROTOCOL_RA = 9
PROTOCOL_KEEPALIVED = 18
"""Origin of a route or a rule; netfw uses static, ``ip`` boot for routes, none for rules."""


class Scope(enum.IntEnum):
    """Scope of an address or a route."""

    GLOBAL = 0
    SITE = 200
    LINK = 253
    HOST = 254
    NOWHERE = 255


class RouteKind(enum.IntEnum):
    """Type of a route: what happens to its packets."""

    UNICAST = 1
    LOCAL = 2
    BROADCAST = 3
    ANYCAST = 4
    MULTICAST = 5
    BLACKHOLE = 6
    UNREACHABLE = 7
    PROHIBIT = 8
    THROW = 9


class RuleAction(enum.IntEnum):
    """Action on a packet that matches the rule."""

    LOOKUP = 1
    GOTO = 2
    NOP = 3
    BLACKHOLE = 6
    UNREACHABLE = 7
    PROHIBIT = 8


def _network(value: str | IpNetwork) -> IpNetwork:
    return unscoped(ipaddress.ip_network(value))


@frozen(kw_only=True)
class Link:
    """A device as the kernel has it."""

    name: str
    index: int
    kind: str | None = None
    """``veth``, ``bridge``, ``tun``, ...; None for hardware and the loopback."""
    mtu: int
    mac: Mac | None = None
    up: bool
    """Whether it was set up, not whether it has a carrier."""
    state: str
    """Operational state in lower case: ``up``, ``down``, ``lowerlayerdown``, ``unknown``, ..."""
    carrier: bool = True
    """Whether it has a carrier; unlike *state* it is never late."""
    master: str | None = None
    peer: int | None = None
    """Index of a veth's other end, when that is in the same namespace."""


@frozen(kw_only=True)
class Address:
    """A desired address of a device."""

    device: str
    interface: IpInterface = field(converter=as_interface)
    scope: Scope | None = None
    """None: the kernel's default.  IPv6 addresses have the scope that they imply."""
    noprefixroute: bool = False
    nodad: bool = field(default=False, eq=False)
    """Whether duplicate detection is skipped; without meaning once the address is present."""
    peer: IpAddress | None = field(default=None, converter=maybe_address)
    """The other end of a point-to-point address, whose network is on the link; no desired address
    has one."""

    @property
    def network(self) -> IpNetwork:
        """The network that the kernel has on the link by this address."""
        if self.peer is None:
            return self.interface.network
        length = self.interface.network.prefixlen
        return ipaddress.ip_network((self.peer.packed, length), strict=False)

    @property
    def key(self) -> tuple[str, int, int, int, IpAddress | None]:
        """Key by which the kernel distinguishes addresses; numbers are hashed and compared fast."""
        mine = self.interface
        return self.device, mine.version, int(mine), mine.network.prefixlen, self.peer


@frozen(kw_only=True)
class FoundAddress:
    """An address as the kernel has it."""

    address: Address
    permanent: bool = True
    """Whether it has no lifetime."""
    automatic: bool = False
    """Whether it is the link-local address that the kernel assigns by itself."""
    secondary: bool = False
    """Whether it is an IPv4 address that is removed with the first one of its network, unless
    promoted."""
    tentative: bool = False
    duplicate: bool = False
    """Whether duplicate detection found another host with it."""
    unrouted: bool = False
    """Whether the route to its network is gone, which the kernel adds together with it."""


@frozen(kw_only=True)
class NextHop:
    """A next hop of a route; several of them share the traffic by weight."""

    via: IpAddress | None = field(default=None, converter=maybe_address)
    device: str | None = None
    weight: int = 1
    onlink: bool = False
    """Whether *via* is assumed to be on the device's link, whatever its addresses."""


RouteKey = tuple[int, int, IpNetwork, int, str]
"""Key of a route: family, table, destination, metric, selector."""


def _usual_metric(route: IpRoute) -> int:
    return 1024 if route.destination.version == 6 else 0


@frozen(kw_only=True)
class IpRoute:
    """A route, identified by :attr:`key`."""

    destination: IpNetwork = field(converter=_network)
    hops: tuple[NextHop, ...] = ()
    metric: int = Factory(_usual_metric, takes_self=True)
    table: int = MAIN_TABLE
    scope: Scope | None = None
    """None: link without a gateway, else global.  Without meaning in IPv6."""
    source: IpAddress | None = field(default=None, converter=maybe_address)
    kind: RouteKind = RouteKind.UNICAST
    protocol: int = field(default=PROTOCOL_STATIC, eq=False)
    selector: str = ""
    """What else the packets of an observed route have: TOS, or a source network; no desired route
    has any."""
    other: frozenset[str] = frozenset()
    """Attributes of an observed route that netfw does not model; no desired route has any."""
    message: bytes = field(default=b"", eq=False, repr=False)
    """The kernel's message of an observed route, which removes exactly this one."""

    @property
    def key(self) -> RouteKey:
        """Key by which the kernel distinguishes routes; IPv4 may have several routes of one key."""
        to = self.destination
        return (to.version, self.table, to, self.metric, self.selector)


def route(
    destination: str | IpNetwork,
    *,
    via: str | IpAddress | None = None,
    device: str | None = None,
    onlink: bool = False,
    **rest: Any,
) -> IpRoute:
    """Make a route with one next hop; ``default`` needs *via*, whose family it takes."""
    gateway = maybe_address(via)
    if destination == "default":
        if gateway is None:
            raise ValueError("a default route without a gateway: name 0.0.0.0/0 or ::/0")
        destination = "::/0" if gateway.version == 6 else "0.0.0.0/0"
    hop = NextHop(via=gateway, device=device, onlink=onlink)
    return IpRoute(destination=_network(destination), hops=(hop,), **rest)


def _version(rule: IpRule) -> int:
    for network in (rule.source, rule.destination):
        if network is not None:
            return network.version
    return 4


def _optional_network(value: str | IpNetwork | None) -> IpNetwork | None:
    return None if value is None else _network(value)


@frozen(kw_only=True)
class IpRule:
    """A rule of the policy routing database."""

    priority: int
    source: IpNetwork | None = field(default=None, converter=_optional_network)
    destination: IpNetwork | None = field(default=None, converter=_optional_network)
    version: int = Factory(_version, takes_self=True)
    iif: str | None = None
    oif: str | None = None
    mark: int | None = None
    mask: int = 0xFFFFFFFF
    table: int = MAIN_TABLE
    action: RuleAction = RuleAction.LOOKUP
    protocol: int = field(default=PROTOCOL_STATIC, eq=False)
    other: frozenset[str] = frozenset()
    """Conditions of an observed rule that netfw does not model; no desired rule has any."""
    message: bytes = field(default=b"", eq=False, repr=False)
    """The kernel's message of an observed rule.  Sent back, it removes the first rule that has all
    that the message states."""

    def __attrs_post_init__(self) -> None:
        for network in (self.source, self.destination):
            if network is not None and network.version != self.version:
                raise ValueError(f"rule {self.priority}: {network} is not of IPv{self.version}")


@frozen(kw_only=True)
class Neighbour:
    """A permanent entry of the neighbour table, or (*proxy*) an address answered for others."""

    device: str
    address: IpAddress = field(converter=as_address)
    mac: Mac | None = None
    proxy: bool = False

    def __attrs_post_init__(self) -> None:
        if self.proxy == (self.mac is not None):
            raise ValueError(f"neighbour {self.address}: a MAC address, or proxy; one of the two")


def addresses(device: str, cidrs: Iterable[str | IpInterface]) -> tuple[Address, ...]:
    """Make the addresses *cidrs* of *device*, with defaults for everything else."""
    return tuple(Address(device=device, interface=as_interface(cidr)) for cidr in cidrs)
