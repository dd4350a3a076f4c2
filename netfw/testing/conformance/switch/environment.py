"""The environment of the switch suite beside the driver: hosts, ports and packets.

A vendor writes one :class:`SwitchEnvironment`, for real hosts by way of
:class:`netfw.testing.conformance.switch.lab_environment.SwitchLabEnvironment`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import ClassVar
from uuid import uuid4

from attrs import field, frozen

from netfw.drivers.switch import SwitchDriver
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.drivers.values.pipeline_grant import GrantRequest
from netfw.drivers.values.switch_values import (
    Admission,
    Endpoint,
    LocalNetwork,
    Subport,
    SwitchKey,
    SwitchValue,
    Wiring,
)
from netfw.model.segment import NetworkType, Provider, Segment
from netfw.model.values.address import IpAddress, Mac
from netfw.model.values.ids import NetworkId, PortId, SegmentId


@frozen
class SwitchNetwork:
    """A network, and its value for a switch driver."""

    id: NetworkId
    value: LocalNetwork

    @property
    def key(self) -> NetworkKey:
        return NetworkKey(self.id)


def a_network(
    kind: NetworkType = NetworkType.LOCAL, number: int | None = None, physical: str | None = None
) -> SwitchNetwork:
    """Make a network of one segment."""
    network = NetworkId(uuid4())
    return SwitchNetwork(
        network, LocalNetwork(segments=(a_segment(network, kind, number, physical),), mtu=1400)
    )


def a_segment(
    network: NetworkId, kind: NetworkType, number: int | None = None, physical: str | None = None
) -> Segment:
    """Make a segment of *network*."""
    provider = Provider(network_type=kind, segmentation_id=number, physical_network=physical)
    return Segment(id=SegmentId(uuid4()), network_id=network, provider=provider)


def _port() -> PortId:
    return PortId(uuid4())


@frozen(eq=False, kw_only=True)
class SwitchTestPort:
    """A port, and the instance behind it that sends and receives."""

    number: int
    """Unique within a test; MAC and addresses are derived from it."""
    net: SwitchNetwork
    host: int = 0
    twin: int | None = None
    """The number of a port on another network whose addresses this port shares."""
    parent: SwitchTestPort | None = None
    """The port whose device carries this one, under *tag*: then it is not plugged itself."""
    tag: int = 0
    id: PortId = field(factory=_port)

    @property
    def key(self) -> PortKey:
        return PortKey(self.id)

    @property
    def _seed(self) -> int:
        return self.number if self.twin is None else self.twin

    @property
    def mac(self) -> Mac:
        return Mac(f"fa:16:3e:{self._seed.to_bytes(3).hex(':')}")

    @property
    def address(self) -> IPv4Address:
        return IPv4Address("10.7.0.0") + self._seed

    @property
    def address6(self) -> IPv6Address:
        return IPv6Address("fd00:7::") + self._seed

    @property
    def addresses(self) -> frozenset[IpAddress]:
        return frozenset({self.address, self.address6})

    def wiring(
        self, admission: Admission = Admission.LIVE, net: SwitchNetwork | None = None
    ) -> Wiring:
        """Return its value for a switch driver."""
        return Wiring(
            network=(net or self.net).id,
            mac=self.mac,
            addresses=self.addresses,
            admission=admission,
            subport=None if self.parent is None else Subport(self.parent.id, self.tag),
        )

    def __repr__(self) -> str:
        return f"port {self.number}"


Pair = tuple[SwitchTestPort, SwitchTestPort]
"""Sender and receiver."""


def among(*ports: SwitchTestPort) -> frozenset[Pair]:
    """Return all pairs of *ports*."""
    return frozenset((one, two) for one in ports for two in ports if one is not two)


def wanted(
    *things: SwitchNetwork | SwitchTestPort, admission: Admission = Admission.LIVE
) -> dict[SwitchKey, SwitchValue]:
    """Return the keys and values of networks and ports."""
    return {
        thing.key: thing.value if isinstance(thing, SwitchNetwork) else thing.wiring(admission)
        for thing in things
    }


@frozen
class Stamp:
    """Distinguishes an object from an equal one that replaced it."""

    version: str = ""
    earliest: float = 0
    latest: float = 0
    """Created between these times."""

    def may_be(self, other: Stamp) -> bool:
        overlap = self.earliest <= other.latest and other.earliest <= self.latest
        return self.version == other.version and overlap


StateDump = Mapping[str, Stamp]
"""The whole state of a switch as text."""


def replaced(before: StateDump, after: StateDump) -> frozenset[str]:
    """Return what was added, removed or replaced."""
    both = before.keys() & after.keys()
    touched = {thing for thing in both if not before[thing].may_be(after[thing])}
    return frozenset(touched | (before.keys() ^ after.keys()))


@frozen(kw_only=True)
class RoutedPacket:
    """A UDP packet that *sender* sends from and to any MAC address."""

    sender: SwitchTestPort
    source: Mac
    to: Mac
    target: IpAddress


@frozen
class NeighbourRequest:
    """An ARP request or neighbour solicitation as a port received it."""

    source: Mac
    """The source of the frame."""
    teaches: bool
    """It has an address of the sender, by which the receiver changes its neighbour entries."""


class TrafficProbe(ABC):
    """Ports that send every 10 ms, by broadcast and to each other.

    The payload names the sender, whatever the source address.
    """

    @abstractmethod
    def exchange(self, expected: Iterable[Pair] = (), within: float = 20.0) -> frozenset[Pair]:
        """Send from each port to each other, and return the pairs that received.

        Waits for the *expected* pairs, at most *within* seconds.  A pair counts only if both the
        broadcast and the unicast frame arrived.
        """

    @abstractmethod
    def lost(self, *pairs: Pair) -> int:
        """Stop sending, and return how many frames of these *pairs* were lost."""

    @property
    @abstractmethod
    def ever_received(self) -> frozenset[Pair]:
        """All pairs that received any frame since the beginning."""

    @abstractmethod
    def forge(
        self, sender: SwitchTestPort, *, vlans: Iterable[int] = (), source: Mac | None = None
    ) -> None:
        """Broadcast once with each tag of *vlans*, or from the MAC *source*."""

    def until(self, expected: Iterable[Pair]) -> None:
        """Wait for exactly the *expected* pairs, for tunnels that must find their peers first."""
        wanted = frozenset(expected)
        missing = wanted
        for _ in range(20):
            now = self.exchange(wanted, within=0.5)
            missing = wanted - now
            assert now <= wanted, f"received, but should not: {sorted(map(repr, now - wanted))}"
            if not missing:
                return
        raise AssertionError(f"never received: {sorted(map(repr, missing))}")


class SwitchEnvironment(ABC):
    """Two hosts, each with a switch of the vendor, and the means to inspect them.

    The tests of a class share it.  ``make_driver`` returns drivers that are configured with the
    physical networks :attr:`physical`, and with tunnels of every type that they support.
    """

    physical: ClassVar[Sequence[str]] = ("physnet1",)
    """Physical networks that join the two hosts, as the drivers are configured."""

    @abstractmethod
    def make_driver(self, host: int = 0) -> SwitchDriver:
        """Return a new driver object for a host; the environment closes what drivers share."""

    def killed(self, driver: SwitchDriver) -> None:  # noqa: B027 - most drivers hold nothing
        """Handle the end of the process of *driver*: release what ends with it, such as a lock."""

    @abstractmethod
    def misconfigured(self) -> SwitchDriver:
        """Return a driver for host 0 whose configuration contradicts the host."""

    @abstractmethod
    def plug(self, *ports: SwitchTestPort) -> None:
        """Plug each into the switch of its host, as a hypervisor would, ready to send."""

    @abstractmethod
    def plug_mute(self, *ports: SwitchTestPort) -> None:
        """Plug ports that carry no traffic, as cheaply as possible."""

    @abstractmethod
    def plug_unfinished(self, port: SwitchTestPort) -> Callable[[], None]:
        """Plug *port* so that the switch cannot give it an ofport.

        The returned function ends that, and returns when the port can send.
        """

    @abstractmethod
    def unplug(self, *ports: SwitchTestPort) -> None:
        """Unplug *ports*; ignore those that are not plugged."""

    @abstractmethod
    def clear(self) -> None:
        """Unplug all ports."""

    @abstractmethod
    def scrub(self, host: int) -> None:
        """Remove by force what drivers made, after a test failed."""

    @abstractmethod
    def settle(self) -> None:
        """Wait until the switches forward as configured: some use a cache first."""

    @abstractmethod
    def probe_traffic(self, *ports: SwitchTestPort) -> AbstractContextManager[TrafficProbe]:
        """Send between these plugged ports."""

    @abstractmethod
    def resolve(self, port: SwitchTestPort, address: IpAddress, *, expected: bool) -> Mac | None:
        """Resolve *address* by ARP or neighbour discovery; ``None``: no answer.

        Waits for an *expected* answer.
        """

    @abstractmethod
    def copies(
        self,
        sender: SwitchTestPort,
        mac: Mac,
        receivers: Iterable[SwitchTestPort],
        *,
        expected: Collection[SwitchTestPort],
    ) -> Mapping[SwitchTestPort, int]:
        """Send a frame to *mac*; return how many copies of it each of *receivers* gets, if any.

        Sends another one while an *expected* receiver gets none: the first frame on a path may be
        lost.
        """

    @abstractmethod
    def announces(
        self,
        port: SwitchTestPort,
        mac: Mac,
        address: IpAddress,
        receiver: SwitchTestPort,
        *,
        expected: bool,
    ) -> bool:
        """Announce *address* from *mac* on *port*; return whether *receiver* gets it.

        Waits for an *expected* announcement.
        """

    @abstractmethod
    def reports_groups(
        self, port: SwitchTestPort, receiver: SwitchTestPort, *, expected: bool
    ) -> bool:
        """Report a multicast group from ``::`` on *port*; return whether *receiver* gets it.

        Waits for an *expected* report.
        """

    def sources(
        self,
        packet: RoutedPacket,
        receivers: Iterable[SwitchTestPort],
        *,
        expected: Collection[SwitchTestPort],
    ) -> Mapping[SwitchTestPort, frozenset[Mac]]:
        """Send *packet*; return from which MACs each of *receivers* gets it, if at all.

        For ``SwitchCapability.DISTRIBUTED``, as the next two.  Sends another one while an
        *expected* receiver gets none.
        """
        raise NotImplementedError("override `sources`: distributed routers change MAC addresses")

    def requests(
        self, port: SwitchTestPort, address: IpAddress, receiver: SwitchTestPort, *, expected: bool
    ) -> NeighbourRequest | None:
        """Request *address* on *port*; return the request as *receiver* gets it, if it does.

        Waits for an *expected* request.
        """
        raise NotImplementedError("override `requests`: who receives the requests of a router?")

    def resolve_by_owner(
        self, port: SwitchTestPort, owner: SwitchTestPort, version: int
    ) -> Mac | None:
        """Resolve the address of *owner* on *port*; *owner* answers the requests that reach it."""
        raise NotImplementedError("override `resolve_by_owner`: who answers a router?")

    @abstractmethod
    def dump_state(self, host: int = 0) -> StateDump:
        """Return the whole state of the switch without what it has learned."""

    @abstractmethod
    def local_number(self, net: SwitchNetwork, host: int = 0) -> int | None:
        """Return the local VLAN of a network on a host, or ``None``."""

    @abstractmethod
    def drifts(self) -> Mapping[str, Callable[[SwitchTestPort], None]]:
        """Return ways in which another program can damage a wired port, by name."""

    @abstractmethod
    def lose_state(self, host: int = 0) -> None:
        """Lose the state of the switch, as by a restart."""

    @abstractmethod
    def outage(self, host: int = 0) -> AbstractContextManager[None]:
        """Return a context in which the switch is unreachable."""

    @abstractmethod
    def endpoint(self, kind: NetworkType, host: int) -> Endpoint:
        """Return the tunnel endpoint of the host for this type."""

    @abstractmethod
    def unsupported_request(self) -> GrantRequest:
        """Return a grant request for something that this kind of switch does not have."""


UNUSED_ADDRESSES = ip_address("198.18.0.200"), ip_address("fd00:6c61:6200::200")
"""Underlay addresses that no host has."""
