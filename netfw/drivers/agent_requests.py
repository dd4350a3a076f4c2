"""What an agent asks its state source for, beyond reading.

A request is idempotent: what it makes is found by what the request says, so asking again, by
another thread or after a crash, gives an equal answer and makes nothing twice.
"""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from attrs import field, frozen

from netfw.model.address import IpAddress, IpNetwork, Mac, no_scope
from netfw.model.ids import NetworkId, PortId, RouterId, SubnetId
from netfw.model.port import Port

R_co = TypeVar("R_co", covariant=True)


class Request(Generic[R_co]):
    """Something that is answered with an ``R_co``."""

    __slots__ = ()


@frozen(kw_only=True)
class EnsureDhcpPort(Request[Port]):
    """The port from which *host* serves *network*: the one it has, one left by a dead host, or a
    new one; bound to the host, with an address on each of *subnets*."""

    network: NetworkId
    host: str
    subnets: frozenset[SubnetId]


@frozen(kw_only=True)
class ReleaseDhcpPort(Request[None]):
    """The host serves the network no longer: its port may go."""

    network: NetworkId
    host: str


@frozen(kw_only=True)
class FindPorts(Request[tuple[Port, ...]]):
    """The ports that have *address*, on a network or behind a router; for metadata.

    Every port has the IPv6 link-local address that follows from its MAC address, too.
    """

    address: IpAddress = field(validator=no_scope)
    network: NetworkId | None = None
    router: RouterId | None = None

    def __attrs_post_init__(self) -> None:
        if (self.network is None) == (self.router is None):
            raise ValueError("ask for a network or for a router, not for both or neither")


@frozen(kw_only=True)
class EnsureGatewayPort(Request[Port]):
    """The port of *host* on an external network, for the floating IPs of its instances."""

    network: NetworkId
    host: str


@frozen
class EnsureHostMac(Request[Mac]):
    """The MAC address that routed traffic of *host* carries between hosts."""

    host: str


@frozen
class EnabledServices(Request[frozenset[str]]):
    """The service plugins that the server runs, by name."""


@frozen(kw_only=True)
class SetPrefix(Request[None]):
    """Record that a provider delegated *prefix* to a subnet, or withdrew it."""

    DRAFT: ClassVar[bool] = True

    subnet: SubnetId
    prefix: IpNetwork | None = field(validator=no_scope)


@frozen(kw_only=True)
class ResolveDevices(Request[tuple[Port, ...]]):
    """The ports of these ids wherever they are bound, so that a stray device can be explained."""

    ports: frozenset[PortId]
