"""Requests of an agent to its state source, beyond reading.

A request is idempotent: its fields identify what it makes, so a second request, by another thread
or after a crash, gives an equal answer and makes nothing twice.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from attrs import field, frozen

from netfw.model.port import Port
from netfw.model.values.address import IpAddress, IpNetwork, Mac, no_scope
from netfw.model.values.ids import NetworkId, PortId, RouterId, SubnetId

R_co = TypeVar("R_co", covariant=True)


class Request(Generic[R_co]):
    """A request that is answered with an ``R_co``."""

    __slots__ = ()


@frozen(kw_only=True)
class EnsureDhcpPort(Request[Port]):
    """Get the port from which *host* serves *network*: its present one, one left by a dead host, or
    a new one; bound to the host, with an address on each of *subnets*."""

    network: NetworkId
    host: str
    subnets: frozenset[SubnetId]


@frozen(kw_only=True)
class ReleaseDhcpPort(Request[None]):
    """Release the port of a host that no longer serves the network."""

    network: NetworkId
    host: str


@frozen(kw_only=True)
class FindPorts(Request[tuple[Port, ...]]):
    """Find the ports that have *address*, on a network or behind a router; for metadata.

    Every port also has the IPv6 link-local address of its MAC address.
    """

    address: IpAddress = field(validator=no_scope)
    network: NetworkId | None = None
    router: RouterId | None = None

    def __attrs_post_init__(self) -> None:
        if (self.network is None) == (self.router is None):
            raise ValueError("request a network or a router, not both or neither")


@frozen(kw_only=True)
class EnsureGatewayPort(Request[Port]):
    """Get the port of *host* on an external network, for the floating IPs of its instances."""

    network: NetworkId
    host: str


@frozen(kw_only=True)
class ReleaseGatewayPort(Request[None]):
    """Release the port of a host that has no floating IP of the external network any more."""

    network: NetworkId
    host: str


@frozen
class EnsureHostMac(Request[Mac]):
    """Get the MAC address that routed traffic of *host* carries between hosts."""

    host: str


@frozen
class EnabledServices(Request[frozenset[str]]):
    """Get the names of the service plugins that the server runs."""


@frozen(kw_only=True)
class SetPrefix(Request[None]):
    """Renumber a subnet, and its ports, to the *prefix* that a provider delegated to the gateway of
    *router*; ``None``: the prefix was withdrawn, and the subnet is provisional."""

    router: RouterId
    subnet: SubnetId
    prefix: IpNetwork | None = field(validator=no_scope)


@frozen(kw_only=True)
class ResolveDevices(Request[tuple[Port, ...]]):
    """Get the ports of these ids on any host, to explain an unbound device."""

    ports: frozenset[PortId]
