"""Keys and values of a switch driver.

=================  ======================  ================================================
key                value                   one for each
=================  ======================  ================================================
``PortKey``        ``Wiring``              port of this host
``NetworkKey``     ``LocalNetwork``        network that has a port on this host
``Endpoint``       ``Tunnel``              peer to reach through a tunnel
``FloodKey``       ``Flood``               network and peer that has a port of it
``ForwardingKey``  ``Forwarding``          port elsewhere, known by population
``HostKey``        ``HostMac``             host with distributed routers, this one included
``ExtensionKey``   ``SwitchContribution``  extension with flows that belong to no port
=================  ======================  ================================================
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping

from attrs import field, frozen

from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.keys import ExtensionKey, HostKey, NetworkKey, PortKey
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.flows.pipeline import Pipeline
from netfw.model.segment import NetworkType, Segment
from netfw.model.values.address import IpAddress, IpInterface, Mac, no_scope
from netfw.model.values.ids import NetworkId, PortId, SegmentId


class Admission(enum.Enum):
    """How far a port takes part in its network."""

    DEAD = "dead"
    """No traffic: unknown to the server, bound elsewhere, deleted, or administratively down."""
    HOLD = "hold"
    """Prepared, but otherwise unchanged: its filters come first.  A live port stays filtered or
    not, guarded (by ``guard``) or not, and its MAC shared or not, as before."""
    LIVE = "live"


@frozen
class Subport:
    """The parent port and the VLAN of a port that is a VLAN inside another port's device."""

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
    """The segment it is bound to; ``None``: the only one of its network on this host."""
    guard: frozenset[AllowedSource] | None = None
    """Allowed sources; ``None``: the switch does not guard the port."""
    filtered: bool = False
    """Packets from it and to it pass only through the firewall in the switch; without a firewall
    nothing passes (``FirewallCapability.IN_SWITCH``)."""
    open: bool = False
    """Other MAC addresses than its own may be behind it (no port security, allowed pairs): packets
    for an unknown address go there, too."""
    shared_mac: bool = False
    """The MAC address is on several hosts at once: frames for it go to the local port and to the
    other hosts that have it."""
    subport: Subport | None = None
    contributions: tuple[SwitchContribution, ...] = ()
    """Contributions of the extensions for this port, in the order of the configuration."""


@frozen
class RouterInterface:
    """The interface of a distributed router, the same on every host."""

    port: PortId
    mac: Mac = field(converter=Mac)
    addresses: frozenset[IpInterface] = field(validator=no_scope)
    """Its addresses, each with the length of its subnet's prefix."""


@frozen(kw_only=True)
class LocalNetwork:
    """A network that has ports on this host."""

    segments: tuple[Segment, ...]
    """Segments that this host can reach; only a router connects ports of two segments."""
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
    """A tunnel to a peer host."""

    host: str
    mesh: bool = False
    """Without population: every network of its type floods into it and learns from it."""


@frozen
class FloodKey:
    """A network and the endpoint of a host with a port of it, which gets its broadcasts."""

    network: NetworkId
    endpoint: Endpoint

    def __str__(self) -> str:
        return f"flood of network {self.network} to {self.endpoint}"


@frozen
class Flood:
    """Value of a ``FloodKey``; its presence is the only information."""


@frozen
class ForwardingKey:
    """A MAC address on a network; a shared one is behind several endpoints at a time."""

    network: NetworkId
    mac: Mac = field(converter=Mac)

    def __str__(self) -> str:
        return f"forwarding to {self.mac} of network {self.network}"


MAX_ENDPOINTS = 256
"""Most endpoints of one MAC address."""


def endpoints_problem(endpoints: Collection[Endpoint]) -> str | None:
    """Return why a MAC address cannot have these endpoints; frames for it can be flooded."""
    if not 1 <= len(endpoints) <= MAX_ENDPOINTS:
        return f"a MAC address has 1 to {MAX_ENDPOINTS} endpoints, not {len(endpoints)}"
    types = sorted({endpoint.type for endpoint in endpoints})
    if len(types) > 1:
        return f"the endpoints of a MAC address have one tunnel type, not {', '.join(types)}"
    return None


def _possible(_: object, attribute: object, endpoints: frozenset[Endpoint]) -> None:
    problem = endpoints_problem(endpoints)
    if problem is not None:
        raise ValueError(problem)


@frozen
class Forwarding:
    """The endpoints of a MAC address, and the IP addresses that the ARP responder answers for it.

    A frame for it goes to every endpoint, or to that of the active host if the switch knows it.  So
    does a request that the responder answers: its receiver updates its neighbour entry of the
    sender.
    """

    endpoints: frozenset[Endpoint] = field(validator=_possible)
    addresses: frozenset[IpAddress] = field(default=frozenset(), validator=no_scope)


@frozen
class HostMac:
    """The MAC address that routed traffic of a host carries between hosts."""

    mac: Mac = field(converter=Mac)
    own: bool = False
    """It is this host's."""
    endpoints: frozenset[Endpoint] = frozenset()
    """The tunnel endpoints of the host, at most one of each type; none for this host."""


@frozen(kw_only=True)
class SwitchDevice:
    """A plugged port as the switch reports it."""

    name: str
    mac: Mac | None = None
    ofport: int | None = None
    """Port number in the switch; ``None`` until it has assigned one."""
    ancillary: bool = False
    """The port is on a switch that netfw only watches: only its status is reported."""


@frozen(kw_only=True)
class Bandwidth:
    """The bandwidth of an attachment point that can be guaranteed to ports, in kilobits a second.

    ``None``: none can.
    """

    egress: int | None = None
    ingress: int | None = None


@frozen(kw_only=True)
class SwitchFacts:
    """Facts of this host, by which the server binds ports."""

    physical_networks: frozenset[str] = frozenset()
    mappings: Mapping[str, str] = field(factory=dict)
    """Bridge or other attachment point of each physical network, for operators."""
    bandwidths: Mapping[str, Bandwidth] = field(factory=dict)
    """Bandwidth that can be guaranteed to ports, by the attachment point in ``mappings``."""
    endpoints: frozenset[Endpoint] = frozenset()
    """Tunnel endpoints of this host: the types it supports, and the addresses for peers."""
    network_types: frozenset[NetworkType] = frozenset()
    """Types of segments that the switch carries and that netfw itself does not know."""
    datapath_type: str = ""
    bridge: str = ""
    """Bridge into which a hypervisor plugs instances."""
    vhostuser_socket_dir: str | None = None
    features: frozenset[str] = frozenset()
    """Features of the switch, by its own names."""
    pipelines: Mapping[str, Pipeline] = field(factory=dict, eq=False, repr=False)
    """Flow tables of its bridges, by bridge, for traces; none: the switch does not explain them."""


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
