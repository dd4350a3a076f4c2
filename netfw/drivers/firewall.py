"""FirewallDriver: lets through what security groups allow, and nothing else."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from attrs import field, frozen

from netfw.drivers.allowed_source import AllowedSource
from netfw.drivers.base import Capability, DriverInfo
from netfw.drivers.host_driver import HostCapability, HostDriver
from netfw.drivers.keys import AddressGroupKey, GroupKey, PortKey
from netfw.model.address import IpNetwork, Mac, no_scope
from netfw.model.ids import NetworkId, SecurityGroupId
from netfw.model.security_group import SecurityGroupRule


@frozen(kw_only=True)
class FilteredPort:
    """A port of this host, and what may pass it.  ``PortKey`` is its key."""

    network: NetworkId
    """Connections of two networks are never taken for one another."""
    device: str
    """The port's device on this host."""
    mac: Mac = field(converter=Mac)
    sources: frozenset[AllowedSource] = frozenset()
    """What it may send as: its own addresses, its allowed pairs, and the link-local address of
    each of their MAC addresses, which whoever makes this value includes."""
    groups: frozenset[SecurityGroupId] = frozenset()
    """Its security groups; in none of them, it lets nothing through."""
    trusted: bool = False
    """Port security is off, or the port is a router's or a DHCP server's: nothing is filtered."""


@frozen
class Rules:
    """What one security group allows.  ``GroupKey`` is its key."""

    rules: frozenset[SecurityGroupRule] = frozenset()
    stateful: bool = True
    """Answers to what is allowed pass.  Without it every packet needs a rule of its own, and
    later fragments, which have no ports, pass by their protocol."""


@frozen
class Member:
    """An address that is in a group other groups refer to.  It is its own key and its own value.

    So that one more member costs the same whether the group has ten or ten thousand.
    """

    group: GroupKey | AddressGroupKey
    prefix: IpNetwork = field(validator=no_scope)
    mac: Mac | None = None
    """Given where the prefix alone would let everybody in: an allowed pair of all addresses.
    Packets to and from the member then bear it as well."""

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
    """Security groups can be stateless: they keep no connection state."""


class FirewallDriver(HostDriver[FirewallKey, FirewallValue]):
    """Filters the ports of this host.

    Called by the one thread of the L2 agent's loop, outside any transaction, before a port is let
    live: one update holds all ports, groups and members that changed together.  A ``PortKey`` (of
    ``netfw.drivers.keys``) has a ``FilteredPort``, a ``GroupKey`` has ``Rules``, and a ``Member``
    is its own value.  A group nobody put allows nothing; a remote group without members matches
    nobody.  ``held`` has every key that was put: trusted ports, groups without rules and members
    that nobody refers to as well.  A driver that filters nothing does not declare
    ``FirewallCapability.FILTERING``.  Promises beyond those of :class:`HostDriver`:

    1. A port that is filtered lets nothing in or out that no rule of its groups allows, replies
       to what was allowed excepted.  DHCP and neighbour discovery work without a rule; a port can
       be neither DHCP server nor router.
    2. It sends only as its ``sources``, in ARP and neighbour advertisements too
       (``FirewallCapability.SPOOF_GUARD``).
    3. A rule that refers to a group follows its members: a new one may talk at once, one that is
       dropped is cut off at once.
    4. What only a dropped rule, member or group allowed ends, established connections included;
       all other connections live on, also when the driver or the agent is restarted.
    5. At every moment of an update, nothing passes that both the old and the new policy deny, and
       nothing is dropped that both allow.  A step that fails leaves the old policy in force.
    6. The cost of one member does not grow with its group, nor that of one port with its host.
    7. Equal addresses on two networks are two addresses.
    8. A trusted port passes everything; becoming filtered or trusted is a change like any other.
    9. A value that could not be told apart from the backend's own language is refused by name, as
       ``InvalidInput`` for its key; it never reaches the backend.
    """

    GROUP: ClassVar[str] = "netfw.firewall_drivers"
    VERSION: ClassVar[int] = 1
    CAPABILITY_TYPES: ClassVar[tuple[type[Capability], ...]] = (HostCapability, FirewallCapability)

    @abstractmethod
    def describe(self) -> DriverInfo[HostCapability | FirewallCapability]:
        """Return the name of the driver and its capabilities.  Touches nothing."""
