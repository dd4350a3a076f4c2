"""What a switch driver holds: which key has which value, and what each value means.

=================  ===================  ====================================================
key                value                one of them for each
=================  ===================  ====================================================
``PortKey``        ``Wiring``           port of this host
``NetworkKey``     ``LocalNetwork``     network that has a port on this host
``Endpoint``       ``Tunnel``           peer to reach through a tunnel
``FloodKey``       ``Flood``            network and peer that has a port of it
``ForwardingKey``  ``Forwarding``       port elsewhere, known by population
``HostKey``        ``HostMac``          host with distributed routers, this one included
``ExtensionKey``   ``SwitchContribution``   extension with flows that belong to no port
=================  ===================  ====================================================
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import ClassVar

from attrs import field, frozen

from netfw.drivers.allowed_source import AllowedSource
from netfw.drivers.contribution import SwitchContribution
from netfw.drivers.keys import ExtensionKey, HostKey, NetworkKey, PortKey
from netfw.model.address import IpAddress, IpInterface, Mac, no_scope
from netfw.model.ids import NetworkId, PortId, SegmentId
from netfw.model.segment import NetworkType, Segment


class Admission(enum.Enum):
    """How far a port may take part in its network."""

    DEAD = "dead"
    """Not at all: unknown to the server, bound elsewhere, deleted, or administratively down."""
    HOLD = "hold"
    """As it is now, but ready: its filters come first.  One that is live stays filtered or not,
    and guarded (by ``guard``) or not, as it was."""
    LIVE = "live"


@frozen
class Subport:
    """The parent port and the VLAN of a port that is a VLAN inside another port's device."""

    DRAFT: ClassVar[bool] = True

    parent: PortId
    vlan: int


@frozen(kw_only=True)
class Wiring:
    """A port of this host."""

    network: NetworkId
    mac: Mac = field(converter=Mac)
    addresses: frozenset[IpAddress] = field(default=frozenset(), validator=no_scope)
    admission: Admission
    segment: SegmentId | None = None
    """The one it is bound to; ``None``: the only one its network has on this host."""
    guard: frozenset[AllowedSource] | None = None
    """The only sources it may use; ``None``: not guarded here."""
    filtered: bool = False
    """Packets from it and to it pass only as the firewall in the switch lets them: without one
    nothing passes (``FirewallCapability.IN_SWITCH``)."""
    open: bool = False
    """Other MAC addresses than its own may be behind it (no port security, allowed pairs): what
    is for an address that nobody knows goes there too."""
    subport: Subport | None = None
    contributions: tuple[SwitchContribution, ...] = ()
    """What the extensions add for this port, in the order of the configuration."""


@frozen
class RouterInterface:
    """The interface of a distributed router, the same on every host."""

    DRAFT: ClassVar[bool] = True

    mac: Mac = field(converter=Mac)
    gateway: IpInterface = field(validator=no_scope)


@frozen(kw_only=True)
class LocalNetwork:
    """A network that has ports on this host."""

    segments: tuple[Segment, ...]
    """Those that this host can reach; ports of one reach ports of another only by a router."""
    mtu: int
    router_interfaces: frozenset[RouterInterface] = frozenset()
    """Distributed routers on it; they serve the ports whose addresses are in their subnets."""
    contributions: tuple[SwitchContribution, ...] = ()


@frozen
class Endpoint:
    """The far end of tunnels of one type."""

    type: NetworkType
    address: IpAddress = field(validator=no_scope)

    def __str__(self) -> str:
        return f"{self.type} {self.address}"


@frozen
class Tunnel:
    """A tunnel to a peer."""

    host: str
    mesh: bool = False
    """Without population: every network of its type floods into it, and learns from it."""


@frozen
class FloodKey:
    """Broadcast of ``network`` goes to ``endpoint``: a port of it is there."""

    network: NetworkId
    endpoint: Endpoint

    def __str__(self) -> str:
        return f"flood of network {self.network} to {self.endpoint}"


@frozen
class Flood:
    """Presence is all there is to say."""


@frozen
class ForwardingKey:
    """A MAC address on a network; it is at one place at a time."""

    network: NetworkId
    mac: Mac = field(converter=Mac)

    def __str__(self) -> str:
        return f"forwarding to {self.mac} of network {self.network}"


@frozen
class Forwarding:
    """Where a MAC address is, and which addresses are answered for on its behalf."""

    endpoint: Endpoint
    addresses: frozenset[IpAddress] = field(default=frozenset(), validator=no_scope)


@frozen
class HostMac:
    """The MAC address that routed traffic of a host carries between hosts."""

    DRAFT: ClassVar[bool] = True

    mac: Mac = field(converter=Mac)
    own: bool = False


@frozen(kw_only=True)
class SwitchDevice:
    """A plugged port as the switch has it."""

    name: str
    mac: Mac | None = None
    ofport: int | None = None
    """The switch's number for it; ``None`` until it has given one."""
    ancillary: bool = False
    """It is on a switch that netfw only watches: its status is reported, nothing else."""


@frozen(kw_only=True)
class SwitchFacts:
    """What this host offers; the server binds ports by it."""

    physical_networks: frozenset[str] = frozenset()
    mappings: Mapping[str, str] = field(factory=dict)
    """The switch's name for where each physical network is, such as its bridge; for people."""
    endpoints: frozenset[Endpoint] = frozenset()
    """Its own ends of tunnels: the types it can do, and where peers reach it."""
    datapath_type: str = ""
    bridge: str = ""
    """Where a hypervisor plugs instances."""
    vhostuser_socket_dir: str | None = None
    features: frozenset[str] = frozenset()
    """What the switch itself can do, in the switch's own words."""


SwitchEntry = (
    tuple[PortKey, Wiring]
    | tuple[NetworkKey, LocalNetwork]
    | tuple[Endpoint, Tunnel]
    | tuple[FloodKey, Flood]
    | tuple[ForwardingKey, Forwarding]
    | tuple[HostKey, HostMac]
    | tuple[ExtensionKey, SwitchContribution]
)
"""A key and a value that belongs to it."""
SwitchKey = PortKey | NetworkKey | Endpoint | FloodKey | ForwardingKey | HostKey | ExtensionKey
SwitchValue = Wiring | LocalNetwork | Tunnel | Flood | Forwarding | HostMac | SwitchContribution
