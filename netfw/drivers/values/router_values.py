"""Keys and values of a router driver.

===================  =================  ====================================================
key                  value              one for each
===================  =================  ====================================================
``RouterKey``        ``RouterState``    router on this host
``FloatingIpKey``    ``FloatingIpNat``  floating IP that is translated on this host
``AgentGatewayKey``  ``AgentGateway``   external network to which this host has its own port
===================  =================  ====================================================
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import Attribute, field, frozen

from netfw.drivers.values.events import Event
from netfw.drivers.values.keys import AgentGatewayKey, FloatingIpKey, RouterKey
from netfw.drivers.values.router_contribution import RouterContribution
from netfw.model.router import HaRole
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress, IpInterface, IpNetwork, Mac, no_scope
from netfw.model.values.ids import AddressScopeId, NetworkId, PortId, RouterId, SubnetId
from netfw.model.values.route import Route

HA_PRIORITY = 200
"""Default priority of a host in the election of the active one.  A host takes over after a clean
stop of the active one within (256 - priority) / 256 seconds."""
METADATA_PORT = 9697
"""Default port of the metadata proxy in the namespace of a router."""
MAX_HA_PEERS = 254
"""Most other hosts that a highly available router can be on."""


class RouterPart(enum.StrEnum):
    """A part of a router; a host has the full router, or one or both of the other parts."""

    FULL = "full"
    """The whole router; one of several instances if it is highly available."""
    LOCAL = "local"
    """The part of a distributed router for the instances of this host."""
    CENTRAL = "central"
    """The part of a distributed router that does SNAT for instances without a floating IP."""


def _one_per_family(_: object, attribute: Attribute[Any], found: Iterable[IpAddress]) -> None:
    """Refuse two addresses of one family."""
    for version, count in Counter(address.version for address in found).items():
        if count > 1:
            raise ValueError(f"{attribute.name}: {count} of IPv{version}, at most one is possible")


@frozen(kw_only=True)
class RouterPort:
    """An interface or a gateway of a router."""

    id: PortId
    network: NetworkId
    mac: Mac = field(converter=Mac)
    addresses: tuple[IpInterface, ...] = field(validator=no_scope)
    subnets: tuple[Subnet, ...] = ()
    """The subnets of its addresses.  An interface advertises those with ``ipv6_ra_mode``."""
    mtu: int = 1500
    scopes: Mapping[int, AddressScopeId] = field(factory=dict, hash=False)
    """Address scopes of its network, by IP version; a family without one is in ``noscope``.
    Traffic between two scopes is translated or refused."""
    delegated: frozenset[SubnetId] = frozenset()
    """The subnets whose prefixes a provider delegates to the gateway, whether or not it has done
    so: those without a prefix are not among `subnets`.  Of several routers on a subnet only the one
    with its gateway address has it here.  A driver without the capability ``PREFIX_DELEGATION``
    requests none."""


@frozen(kw_only=True)
class Gateway:
    """The gateway of a router to an external network."""

    port: RouterPort
    snat: bool = True
    """Instances without a floating IP leave with the gateway's IPv4 address."""
    next_hops: tuple[IpAddress, ...] = field(default=(), validator=[no_scope, _one_per_family])
    """Next hops of the default routes, at most one per family; one outside the subnets of the port
    is on the link."""
    ipv6_from_ra: bool = False
    """Without an IPv6 next hop: router advertisements on the external network give one."""
    onlink_subnets: tuple[IpNetwork, ...] = field(default=(), validator=no_scope)
    """Other subnets of the external network, reached on the link."""


@frozen(kw_only=True)
class HighAvailability:
    """Settings of a router that is on several hosts, one of which is active."""

    port: RouterPort
    """The port of this host on the HA network."""
    vrid: int
    """The virtual router id of VRRP, 1 to 255, unique on the HA network."""
    priority: int = HA_PRIORITY
    """The priority in an election, 1 to 254.  A host with a higher one does not preempt."""
    peers: tuple[IpAddress, ...] = field(default=(), validator=no_scope)
    """Addresses of the other hosts' ports on the HA network, at most ``MAX_HA_PEERS``."""

    def __attrs_post_init__(self) -> None:
        if self.vrid not in range(1, 256):
            raise ValueError(f"vrid: {self.vrid} is not within 1..255")
        if self.priority not in range(1, 255):
            raise ValueError(f"priority: {self.priority} is not within 1..254")
        if len(self.peers) > MAX_HA_PEERS:
            raise ValueError(f"peers: {len(self.peers)}, at most {MAX_HA_PEERS} are possible")


@frozen(kw_only=True)
class FullRouter:
    """``RouterPart.FULL``: a plain router, or one instance of a highly available one."""

    interfaces: tuple[RouterPort, ...] = ()
    gateway: Gateway | None = None
    ha: HighAvailability | None = None


@frozen(kw_only=True)
class LocalRouter:
    """``RouterPart.LOCAL`` of a distributed router."""

    interfaces: tuple[RouterPort, ...] = ()
    snat_addresses: Mapping[SubnetId, IpAddress] = field(factory=dict, hash=False)
    """By subnet: the central part's address on it, next hop of instances without a floating IP."""
    external_network: NetworkId | None = None
    """The network of the ``AgentGatewayKey`` that its floating IPs use."""
    gateway_port: PortId | None = None
    """The gateway of the router, which the central part has.  In a ``RouterRule`` it stands for the
    way to the agent gateway here."""

    @snat_addresses.validator
    def _check(self, attribute: Attribute[object], found: Mapping[SubnetId, IpAddress]) -> None:
        no_scope(self, attribute, found.values())


@frozen(kw_only=True)
class CentralRouter:
    """``RouterPart.CENTRAL`` of a distributed router."""

    ports: tuple[RouterPort, ...] = ()
    """The ports of the central part on the internal networks."""
    gateway: Gateway
    ha: HighAvailability | None = None


@frozen(kw_only=True)
class RouterState:
    """The desired state of a router on this host, without its floating IPs."""

    full: FullRouter | None = None
    local: LocalRouter | None = None
    central: CentralRouter | None = None
    routes: tuple[Route, ...] = ()
    """Routes with one destination and different next hops are one multipath route.  Impossible ones
    are left out (``PartlyInvalid``)."""
    metadata_port: int | None = field(default=METADATA_PORT)
    """Port of the metadata proxy to which requests of instances are redirected, and which nothing
    else reaches; ``None``: no metadata through this router."""
    contributions: tuple[RouterContribution, ...] = ()
    """Contributions of the extensions, in the order of the configuration.  Those to a distributed
    router belong to its central part, rules with ``RouterRule.local`` to both parts, and the QoS
    rules of floating IPs to the part that translates them."""

    @metadata_port.validator
    def _check_port(self, _: object, port: int | None) -> None:
        if port is not None and port not in range(1, 65536):
            raise ValueError(f"metadata_port: {port} is not within 1..65535")

    def __attrs_post_init__(self) -> None:
        if not self.parts:
            raise ValueError("a router has a full part, or a local or central one, or both")
        if self.full is not None and len(self.parts) > 1:
            raise ValueError("a full router has neither a local nor a central part")

    @property
    def parts(self) -> frozenset[RouterPart]:
        """The parts of the router that this host has."""
        found = {
            RouterPart.FULL: self.full,
            RouterPart.LOCAL: self.local,
            RouterPart.CENTRAL: self.central,
        }
        return frozenset(part for part, value in found.items() if value is not None)


@frozen(kw_only=True)
class AgentGateway:
    """This host's own port on an external network, for floating IPs of its instances."""

    port: RouterPort
    next_hops: tuple[IpAddress, ...] = field(default=(), validator=[no_scope, _one_per_family])
    onlink_subnets: tuple[IpNetwork, ...] = field(default=(), validator=no_scope)


@frozen(kw_only=True)
class FloatingIpNat:
    """The translation of a floating IP to the fixed address of a port."""

    router: RouterId
    part: RouterPart = RouterPart.FULL
    """The part of the router that translates it."""
    external_network: NetworkId
    floating_address: IpAddress = field(validator=no_scope)
    fixed_address: IpAddress = field(validator=no_scope)
    prepared: bool = False
    """At a local part only: its port may be activated on this host.  Everything is there but the
    way in from the external network."""

    def __attrs_post_init__(self) -> None:
        if self.prepared and self.part is not RouterPart.LOCAL:
            raise ValueError(f"{self.floating_address} is prepared at a part that is not local")
        if self.floating_address.version != self.fixed_address.version:
            raise ValueError(
                f"{self.floating_address} and {self.fixed_address} are of different families"
            )


@frozen(kw_only=True)
class RouterStatus:
    """A router as this host has it."""

    namespaces: Mapping[RouterPart, str] = field(factory=dict)
    """The network namespace of each part, where the driver has them."""
    devices: Mapping[PortId, str] = field(factory=dict)
    role: HaRole | None = None


@frozen
class RoleChanged(Event):
    """The role of a highly available router changed.

    An agent converges a router that is no longer active once more.
    """

    router: RouterId
    role: HaRole


@frozen
class PrefixDelegated(Event):
    """A provider delegated the prefix of a subnet; ``None``: it expired or was withdrawn.

    An agent reports it to its source; the router follows in an update.
    """

    router: RouterId
    subnet: SubnetId
    prefix: IpNetwork | None = field(validator=no_scope)


RouterDriverEntry = (
    tuple[RouterKey, RouterState]
    | tuple[FloatingIpKey, FloatingIpNat]
    | tuple[AgentGatewayKey, AgentGateway]
)
"""A key and a value that belongs to it."""
RouterDriverKey = RouterKey | FloatingIpKey | AgentGatewayKey
RouterDriverValue = RouterState | FloatingIpNat | AgentGateway
