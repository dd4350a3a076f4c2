"""FirewallDriver: enforces security groups on the ports of this host."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from attrs import field, frozen

from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.keys import AddressGroupKey, GroupKey, PortKey
from netfw.model.security_group import SecurityGroupRule
from netfw.model.values.address import IpNetwork, Mac, no_scope
from netfw.model.values.ids import NetworkId, SecurityGroupId

HYBRID_DEVICE_PREFIX = "qvo"
"""How devices of the switch are called that lead to a Linux bridge of the port's own."""


@frozen(kw_only=True)
class FilteredPort:
    """A port of this host and its filter.  ``PortKey`` is its key."""

    network: NetworkId
    """Connections of two networks are never confused."""
    device: str
    """The port's device on this host."""
    mac: Mac = field(converter=Mac)
    sources: frozenset[AllowedSource] = frozenset()
    """Allowed sources: its own addresses, its allowed pairs, and the link-local address of each of
    their MAC addresses; the maker of this value includes them."""
    groups: frozenset[SecurityGroupId] = frozenset()
    """Its security groups; a port without any lets nothing through."""
    trusted: bool = False
    """Port security is off, or the port is that of a router or a DHCP server: no filter."""


@frozen
class Rules:
    """The rules of one security group.  ``GroupKey`` is its key."""

    rules: frozenset[SecurityGroupRule] = frozenset()
    stateful: bool = True
    """Replies to allowed packets pass.  In a stateless group every packet needs a rule, and later
    fragments, which have no ports, pass by their protocol."""


@frozen(cache_hash=True)
class Member:
    """An address in a group that rules refer to.  It is its own key and its own value.

    So one more member costs the same in a group of ten and of ten thousand.
    """

    group: GroupKey | AddressGroupKey
    prefix: IpNetwork = field(validator=no_scope)
    mac: Mac | None = None
    """Set where the prefix alone would match every address: an allowed pair of all addresses.
    Packets to and from the member must then carry this MAC address, too."""

    def __str__(self) -> str:
        return f"{self.prefix} in {self.group}" + (f" as {self.mac}" if self.mac else "")


FirewallEntry = tuple[PortKey, FilteredPort] | tuple[GroupKey, Rules] | tuple[Member, Member]
"""A key and a value that belongs to it."""
FirewallKey = PortKey | GroupKey | Member
FirewallValue = FilteredPort | Rules | Member


class FirewallCapability(Capability):
    """Capabilities of firewall drivers."""

    FILTERING = "filtering"
    """The driver filters; a driver without this capability lets everything pass."""
    SPOOF_GUARD = "spoof-guard"
    """The firewall checks MAC, ARP and neighbour advertisements; the switch need not."""
    IN_SWITCH = "in-switch"
    """The firewall filters inside the switch; no packet bypasses it there."""
    ADDRESS_GROUPS = "address-groups"
    """Rules can refer to address groups."""
    HYBRID_PLUG = "hybrid-plug"
    """Each instance must be plugged through a Linux bridge of its own."""
    STATELESS_GROUPS = "stateless-groups"
    """Security groups can be stateless: they keep no connection state.  A driver without this
    capability refuses such a group with ``NotSupported``."""
    DCCP_PORTS = "dccp-ports"
    """Rules can be limited to ports of DCCP."""
    UDPLITE_PORTS = "udplite-ports"
    """Rules can be limited to ports of UDP-Lite."""


class FirewallDriver(HostDriver[FirewallKey, FirewallValue]):
    """Filters the ports of this host.

    Called by the one thread of the L2 agent's loop, outside any transaction, before a port becomes
    live: one update has all ports, groups and members that changed together.  The values of each
    key are in ``FirewallEntry``.  A group that was not put allows nothing; a remote group without
    members matches no packet.  ``present`` has every key that was put, trusted ports, groups
    without rules and unused members included.  A driver that filters nothing does not declare
    ``FirewallCapability.FILTERING``.  Promises beyond those of :class:`HostDriver`:

    1. A filtered port sends and receives only what a rule of its groups allows, and replies to
       that.  DHCP and neighbour discovery work without a rule; a port can be neither DHCP server
       nor router.
    2. A filtered port sends only from its ``sources``, in ARP and neighbour advertisements too, and
       probes only for them in duplicate address detection (``FirewallCapability.SPOOF_GUARD``).
    3. A rule that refers to a group follows its members: a new member is allowed at once, and a
       dropped member is cut off at once.
    4. When a rule, member or group is dropped, connections that only it allowed end; all other
       connections survive, also a restart of the driver or the agent.
    5. At every moment of an update, packets that both the old and the new policy deny are dropped,
       and packets that both allow pass.  A step that fails leaves the old policy in force.
    6. The cost of one member is independent of its group, and that of one port of its host.
    7. Equal addresses on two networks are two addresses.
    8. A trusted port passes everything; becoming filtered or trusted is a change like any other.
    9. A value that the backend could read as its own syntax is refused by name, as
       ``InvalidInput`` for its key; it never reaches the backend.
    10. A rule that the driver cannot enforce is left out alone: its group fails with
        ``PartlyInvalid``, which names the rule by its id, and the other rules of the group, and
        all later changes of them, are in force.  ``netfw.drivers.support.firewall_capabilities``
        has the capability that a rule needs.
    """

    GROUP: ClassVar[str] = "netfw.firewall_drivers"
    VERSION: ClassVar[int] = 2
    CAPABILITY_TYPES: ClassVar[tuple[type[Capability], ...]] = (HostCapability, FirewallCapability)

    @abstractmethod
    def describe(self) -> DriverInfo[HostCapability | FirewallCapability]:
        """Return the name of the driver and its capabilities.  Touches nothing."""
