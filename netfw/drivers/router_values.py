"""What a router driver holds: the whole of one router as one value."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from attrs import field, frozen

from netfw.drivers.contribution import RouterContribution
from netfw.drivers.events import Event
from netfw.model.address import IpAddress, IpInterface, IpNetwork, Mac, no_scope
from netfw.model.floating_ip import FloatingIp, PortForwarding
from netfw.model.ids import AddressScopeId, FloatingIpId, NetworkId, PortId, RouterId, SubnetId
from netfw.model.route import Route
from netfw.model.subnet import Subnet


class HaRole(enum.StrEnum):
    """Which of several equal routers this one is."""

    ACTIVE = "active"
    STANDBY = "standby"
    FAULT = "fault"


class RouterMode(enum.StrEnum):
    """Which part of a router is on this host."""

    WHOLE = "whole"
    """All of it; one of several where it is highly available."""
    LOCAL = "local"
    """A distributed router's part for the instances of this host."""
    CENTRAL = "central"
    """A distributed router's part that translates for those without a floating IP."""


@frozen(kw_only=True)
class RouterPort:
    """An interface or a gateway of a router."""

    id: PortId
    network: NetworkId
    mac: Mac = field(converter=Mac)
    addresses: tuple[IpInterface, ...] = field(validator=no_scope)
    subnets: tuple[Subnet, ...] = ()
    mtu: int = 1500
    scopes: frozenset[AddressScopeId] = frozenset()
    """Address scopes of its subnets; traffic between two scopes is translated or refused."""


@frozen(kw_only=True)
class Gateway:
    """The way out."""

    port: RouterPort
    snat: bool = True
    """Instances without a floating IP leave with the gateway's address."""


@frozen
class Neighbour:
    """Where an address is; distributed routers do not ask the wire."""

    address: IpAddress = field(validator=no_scope)
    mac: Mac = field(converter=Mac)


@frozen(kw_only=True)
class HighAvailability:
    """The router is on several hosts, of which one is active."""

    port: RouterPort
    vrid: int
    priority: int = 50


@frozen(kw_only=True)
class Distribution:
    """What a distributed router needs beyond a plain one."""

    host_mac: Mac = field(converter=Mac)
    agent_gateway: RouterPort | None = None
    """This host's own port on the external network, for the floating IPs of its instances."""
    central: tuple[RouterPort, ...] = ()
    """The ports of the central part, one for each subnet."""
    neighbours: Mapping[PortId, tuple[Neighbour, ...]] = field(factory=dict)
    """By interface: the ports of its subnets, wherever they are."""


@frozen(kw_only=True)
class RouterState:
    """A router as this host is to have it.  The router's id is its key."""

    mode: RouterMode = RouterMode.WHOLE
    interfaces: tuple[RouterPort, ...] = ()
    gateway: Gateway | None = None
    routes: tuple[Route, ...] = ()
    floating_ips: tuple[FloatingIp, ...] = ()
    forwardings: tuple[PortForwarding, ...] = ()
    ha: HighAvailability | None = None
    distribution: Distribution | None = None
    metadata: bool = True
    """Its instances reach the metadata service through it."""
    contributions: tuple[RouterContribution, ...] = ()
    """What the extensions add, in the order of the configuration."""


@frozen(kw_only=True)
class RouterStatus:
    """A router as this host has it."""

    namespace: str
    devices: Mapping[PortId, str] = field(factory=dict)
    floating_ips: Mapping[FloatingIpId, str] = field(factory=dict)
    """Those it answers for: empty text; or why it does not."""
    role: HaRole | None = None


@frozen
class RoleChanged(Event):
    """A highly available router became active, or ceased to be."""

    router: RouterId
    role: HaRole


@frozen
class PrefixDelegated(Event):
    """A provider gave, or took back, the prefix of a subnet."""

    router: RouterId
    subnet: SubnetId
    prefix: IpNetwork | None = field(validator=no_scope)
