"""What the suite of switch drivers needs beside the driver: a world with hosts, ports and packets.

A vendor writes one :class:`SwitchEnvironment`, for real hosts by way of
:class:`netfw.testing.conformance.switch.lab_environment.SwitchLabEnvironment`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import ClassVar
from uuid import uuid4

from attrs import field, frozen

from netfw.drivers.keys import NetworkKey, PortKey
from netfw.drivers.pipeline_grant import GrantRequest
from netfw.drivers.switch import SwitchDriver
from netfw.drivers.switch_values import (
    Admission,
    Endpoint,
    LocalNetwork,
    SwitchKey,
    SwitchValue,
    Wiring,
)
from netfw.model.address import IpAddress, Mac
from netfw.model.ids import NetworkId, PortId, SegmentId
from netfw.model.segment import NetworkType, Provider, Segment


@frozen
class Net:
    """A network, and all that a switch driver is told of it."""

    id: NetworkId
    value: LocalNetwork

    @property
    def key(self) -> NetworkKey:
        return NetworkKey(self.id)


def a_network(
    kind: NetworkType = NetworkType.LOCAL, number: int | None = None, physical: str | None = None
) -> Net:
    """A new network of one segment."""
    network = NetworkId(uuid4())
    return Net(
        network, LocalNetwork(segments=(a_segment(network, kind, number, physical),), mtu=1400)
    )


def a_segment(
    network: NetworkId, kind: NetworkType, number: int | None = None, physical: str | None = None
) -> Segment:
    """A new segment of *network*."""
    provider = Provider(network_type=kind, segmentation_id=number, physical_network=physical)
    return Segment(id=SegmentId(uuid4()), network_id=network, provider=provider)


def _port() -> PortId:
    return PortId(uuid4())


@frozen(eq=False, kw_only=True)
class SwitchTestPort:
    """A port, and the machine behind it that speaks and listens."""

    number: int
    """Different for all stations of a test; its MAC and addresses come from it."""
    net: Net
    host: int = 0
    twin: int | None = None
    """Another number that its addresses come from: those of a station of another network."""
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

    def wiring(self, admission: Admission = Admission.LIVE, net: Net | None = None) -> Wiring:
        """What a switch driver is told of it."""
        return Wiring(
            network=(net or self.net).id,
            mac=self.mac,
            addresses=self.addresses,
            admission=admission,
        )

    def __repr__(self) -> str:
        return f"station {self.number}"


Pair = tuple[SwitchTestPort, SwitchTestPort]
"""Who speaks and who hears it."""


def among(*ports: SwitchTestPort) -> frozenset[Pair]:
    """Each of them hears each other."""
    return frozenset((one, two) for one in ports for two in ports if one is not two)


def wanted(
    *things: Net | SwitchTestPort, admission: Admission = Admission.LIVE
) -> dict[SwitchKey, SwitchValue]:
    """What makes all of *things* so."""
    return {
        thing.key: thing.value if isinstance(thing, Net) else thing.wiring(admission)
        for thing in things
    }


@frozen
class Stamp:
    """Tells a thing from another one just like it that took its place."""

    version: str = ""
    earliest: float = 0
    latest: float = 0
    """It came about somewhen between."""

    def may_be(self, other: Stamp) -> bool:
        overlap = self.earliest <= other.latest and other.earliest <= self.latest
        return self.version == other.version and overlap


StateDump = Mapping[str, Stamp]
"""Everything that a switch consists of, as text."""


def replaced(before: StateDump, after: StateDump) -> frozenset[str]:
    """What came, went, or is no longer the very same."""
    both = before.keys() & after.keys()
    touched = {thing for thing in both if not before[thing].may_be(after[thing])}
    return frozenset(touched | (before.keys() ^ after.keys()))


class TrafficProbe(ABC):
    """Stations that say something all the time, every 10 ms: to everybody and to each other.

    What is said names the speaker, whatever address it comes from.
    """

    @abstractmethod
    def exchange(self, expected: Iterable[Pair] = (), within: float = 3.0) -> frozenset[Pair]:
        """Have everybody speak to everybody now; who heard whom.

        What is *expected* is waited for, *within* so many seconds.  A pair counts only if what was
        said to all and what was said to the listener alone both came.
        """

    @abstractmethod
    def lost(self, *pairs: Pair) -> int:
        """Be quiet; how many of the things that were said in these *pairs* were never heard."""

    @property
    @abstractmethod
    def ever_received(self) -> frozenset[Pair]:
        """Everybody who heard anything of anybody, since the beginning."""

    @abstractmethod
    def forge(
        self, sender: SwitchTestPort, *, vlans: Iterable[int] = (), source: Mac | None = None
    ) -> None:
        """Say something to everybody, once with each tag of *vlans*, or from another address."""

    def until(self, expected: Iterable[Pair]) -> None:
        """Wait until what is *expected* is so, for tunnels that must find their peers first."""
        wanted = frozenset(expected)
        missing = wanted
        for _ in range(20):
            now = self.exchange(wanted, within=0.5)
            missing = wanted - now
            assert now <= wanted, f"heard, but should not: {sorted(map(repr, now - wanted))}"
            if not missing:
                return
        raise AssertionError(f"never heard: {sorted(map(repr, missing))}")


class SwitchEnvironment(ABC):
    """Two hosts, each with a switch of the vendor's, and how to look at them.

    It is shared by the tests of a class.  ``make_driver`` gives drivers that are configured with
    the physical networks :attr:`physical`, and with tunnels of every type they can do.
    """

    physical: ClassVar[Sequence[str]] = ("physnet1",)
    """Physical networks that join the two hosts, as the drivers are configured."""

    @abstractmethod
    def make_driver(self, host: int = 0) -> SwitchDriver:
        """A new driver object for one of the hosts; the world closes what it shares."""

    def killed(self, driver: SwitchDriver) -> None:  # noqa: B027 - most drivers hold nothing
        """The process of *driver* is killed: what ends with a process, such as a lock, ends."""

    @abstractmethod
    def misconfigured(self) -> SwitchDriver:
        """A driver for host 0 whose configuration contradicts the machine."""

    @abstractmethod
    def plug(self, *ports: SwitchTestPort) -> None:
        """Plug each into the switch of its host, as a hypervisor would, and let it speak."""

    @abstractmethod
    def plug_mute(self, *ports: SwitchTestPort) -> None:
        """Plug ports that nobody will speak from or listen at: as cheaply as can be."""

    @abstractmethod
    def plug_unfinished(self, port: SwitchTestPort) -> Callable[[], None]:
        """Plug it so that the switch cannot number it.

        The function returned ends that, and is back when the station can speak.
        """

    @abstractmethod
    def unplug(self, *ports: SwitchTestPort) -> None:
        """Take them out; what is not plugged is not."""

    @abstractmethod
    def clear(self) -> None:
        """Take out everything that is plugged."""

    @abstractmethod
    def scrub(self, host: int) -> None:
        """Remove by force what drivers made: a test failed, and the next one begins anew."""

    @abstractmethod
    def settle(self) -> None:
        """Wait until the switches forward as they were told: some look at a cache first."""

    @abstractmethod
    def probe_traffic(self, *ports: SwitchTestPort) -> AbstractContextManager[TrafficProbe]:
        """Have these plugged stations speak."""

    @abstractmethod
    def resolve(self, port: SwitchTestPort, address: IpAddress, *, expected: bool) -> Mac | None:
        """Whose address is that?  ARP or neighbour discovery; ``None``: nobody answers.

        An answer that is *expected* for is waited for.
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
        """Have *port* announce from this MAC that the address is its own; is it heard?

        What is *expected* for is waited for.
        """

    @abstractmethod
    def dump_state(self, host: int = 0) -> StateDump:
        """Everything that the switch consists of, but for what it has learnt by itself."""

    @abstractmethod
    def local_number(self, net: Net, host: int = 0) -> int | None:
        """The number that a network goes by on a host, if it has one there."""

    @abstractmethod
    def drifts(self) -> Mapping[str, Callable[[SwitchTestPort], None]]:
        """Ways in which somebody else can spoil a wired port, by name."""

    @abstractmethod
    def lose_state(self, host: int = 0) -> None:
        """Have the switch forget what it was told, as by a restart of it."""

    @abstractmethod
    def outage(self, host: int = 0) -> AbstractContextManager[None]:
        """Within it the switch does not answer; after it, it does."""

    @abstractmethod
    def endpoint(self, kind: NetworkType, host: int) -> Endpoint:
        """Where tunnels of this kind reach the host."""

    @abstractmethod
    def unsupported_request(self) -> GrantRequest:
        """A claim for something that this kind of switch does not have."""


UNUSED_ADDRESSES = ip_address("198.18.0.200"), ip_address("fd00:6c61:6200::200")
"""Underlay addresses that no host has."""
