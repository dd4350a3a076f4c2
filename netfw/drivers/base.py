"""What every kind of driver has in common."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias, TypeVar

from attrs import field, frozen

if TYPE_CHECKING:
    from oslo_config.cfg import Opt

T = TypeVar("T")
D = TypeVar("D", bound="Driver")


Contract: TypeAlias = Callable[..., D]
"""A contract, as an argument.  ``type[D]`` would let a type checker take concrete classes only."""


class Capability(enum.StrEnum):
    """Something a driver may or may not be able to do.  Code asks for these, never for names."""

    PLAN = "plan"
    """It is a :class:`~netfw.drivers.reconciler.Reconciler`: dry run and drift repair."""
    NAMESPACES = "namespaces"
    """Devices can appear in a named network namespace."""
    MTU_CHANGE = "mtu-change"
    """The MTU of a plugged device can change in place."""
    WATCH = "watch"
    """It announces changes of the machine by itself."""
    FILTERING = "filtering"
    """A firewall driver that filters; one without it says that it lets everything pass."""
    SPOOF_GUARD = "spoof-guard"
    """The firewall checks MAC, ARP and neighbour advertisements; the switch need not."""
    IN_SWITCH = "in-switch"
    """The firewall filters inside the switch; the switch lets nothing pass it by."""
    ADDRESS_GROUPS = "address-groups"
    """Rules can name groups of addresses."""
    HYBRID_PLUG = "hybrid-plug"
    """Instances must be plugged through a Linux bridge of their own."""
    STATELESS_GROUPS = "stateless-groups"
    """Groups that keep no connection state."""
    TUNNELS = "tunnels"
    """The switch joins hosts by tunnels."""
    POPULATION = "population"
    """The switch takes forwarding entries instead of learning them."""
    FLOWS = "flows"
    """Extensions can add OpenFlow flows."""
    QOS = "qos"
    """Limits, guarantees and marks of ports or addresses."""
    TRUNKS = "trunks"
    """Ports can be VLANs of another port's device."""
    HA = "ha"
    """Routers on several hosts, of which one is active."""
    DISTRIBUTED = "distributed"
    """Distributed routers, or the switch's part in them."""
    DHCPV6 = "dhcpv6"
    """A DHCP driver that announces IPv6 prefixes and gives IPv6 addresses."""
    GATEWAY_ADDRESSES = "gateway-addresses"
    """An interface driver of a fabric that routes: services use the gateways' addresses."""
    EXTERNAL = "external"
    """The driver keeps its books outside the database: it is called outside the transaction."""
    SESSION = "session"
    """A driver adapted from elsewhere, whose check writes to the database itself."""


def _capabilities(capabilities: Iterable[Capability]) -> frozenset[Capability]:
    return frozenset(capabilities)


@frozen
class DriverInfo:
    """A driver's description of itself."""

    name: str
    capabilities: frozenset[Capability] = field(default=frozenset(), converter=_capabilities)


class HostResources(Protocol):
    """What ``cli`` or an embedding program gives to the drivers of one host."""

    def share(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the object shared under *key*, made by *make* for the first who asks.

        One OVSDB connection and one OpenFlow connection and mirror per bridge serve all drivers.
        """

    def driver(self, kind: Contract[D]) -> D:
        """Return the collaborator of this *kind*: the router driver's ``InterfaceDriver``.

        :raises ConfigError: this host has none.
        """


class Driver(ABC):
    """Base of every netfw driver.

    Construction does no I/O; ``describe`` touches nothing; ``close`` lets go of connections and
    threads and leaves the machine as it is.  Unless a contract says otherwise, the methods of one
    driver object are called by one thread at a time, and different objects run in parallel.
    """

    GROUP: ClassVar[str]
    """Entry-point group that drivers of this kind register under."""
    VERSION: ClassVar[int]
    """Version of the contract; the loader refuses a driver written for another one."""
    OPTIONS: ClassVar[tuple[Opt, ...]] = ()
    """The driver's own options, shown in the sample configuration and by ``netfw drivers show``."""

    @classmethod
    @abstractmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        """Make a driver from the checked values of its ``OPTIONS``.  Does no I/O.

        :raises ConfigError: the values contradict each other.
        """

    @abstractmethod
    def describe(self) -> DriverInfo:
        """Say who you are and what you can do.  Touches nothing."""

    def problems(self) -> tuple[str, ...]:
        """What this host lacks for the driver, and what to do about each.  Changes nothing."""
        return ()

    def close(self) -> None:  # noqa: B027 - most drivers hold nothing
        """Let go of connections and threads; leave the machine as it is.  Twice is once."""
