"""Values of a router driver: one whole router is one value."""

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
    """The role of one instance of a highly available router."""

    ACTIVE = "active"
    STANDBY = "standby"
    FAULT = "fault"


class RouterMode(enum.StrEnum):
    """The part of a router that is on this host."""

    WHOLE = "whole"
    """The whole router; one of several instances if it is highly available."""
    LOCAL = "local"
    """The part of a distributed router for the instances of this host."""
    CENTRAL = "central"
    """The part of a distributed router that does SNAT for instances without a floating IP."""


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
    """The gateway of a router to an external network."""

    port: RouterPort
    snat: bool = True
    """Instances without a floating IP leave with the gateway's address."""


@frozen
class Neighbour:
    """A static neighbour entry: distributed routers do not resolve addresses on the link."""

    address: IpAddress = field(validator=no_scope)
    mac: Mac = field(converter=Mac)


@frozen(kw_only=True)
class HighAvailability:
    """Settings of a router that is on several hosts, one of which is active."""

    port: RouterPort
    vrid: int
    priority: int = 50


@frozen(kw_only=True)
class Distribution:
    """Settings of a distributed router beyond those of a plain one."""

    host_mac: Mac = field(converter=Mac)
    agent_gateway: RouterPort | None = None
    """This host's own port on the external network, for the floating IPs of its instances."""
    central: tuple[RouterPort, ...] = ()
    """The ports of the central part, one for each subnet."""
    neighbours: Mapping[PortId, tuple[Neighbour, ...]] = field(factory=dict)
    """By interface: the ports of its subnets, on all hosts."""


@frozen(kw_only=True)
class RouterState:
    """The desired state of a router on this host.  The router's id is its key."""

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
    """Contributions of the extensions, in the order of the configuration."""


@frozen(kw_only=True)
class RouterStatus:
    """A router as this host has it."""

    namespace: str
    devices: Mapping[PortId, str] = field(factory=dict)
    floating_ips: Mapping[FloatingIpId, str] = field(factory=dict)
    """Empty text for a floating IP that works, else the reason."""
    role: HaRole | None = None


@frozen
class RoleChanged(Event):
    """The role of a highly available router changed."""

    router: RouterId
    role: HaRole


@frozen
class PrefixDelegated(Event):
    """A provider delegated, or withdrew, the prefix of a subnet."""

    router: RouterId
    subnet: SubnetId
    prefix: IpNetwork | None = field(validator=no_scope)
