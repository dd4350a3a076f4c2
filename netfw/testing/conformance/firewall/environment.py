"""The environment of the firewall suite beside the driver: ports, and packets between them.

A vendor writes one :class:`FirewallEnvironment`, for real packets by way of
:class:`netfw.testing.conformance.firewall.lab_environment.FirewallLabEnvironment`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from ipaddress import IPv4Address, IPv6Address
from typing import Any, ClassVar, TypeVar

from attrs import evolve, frozen

from netfw.drivers.firewall import FilteredPort, FirewallDriver
from netfw.drivers.values.keys import PortKey
from netfw.model.values.address import IpAddress, Mac, link_local
from netfw.model.values.ids import NetworkId, PortId
from netfw.model.values.protocol import ICMP, ICMPV6, TCP, UDP
from netfw.testing.conformance.firewall.packets import (
    ECHO,
    ECHO_REPLY,
    NEIGHBOUR_ADVERTISEMENT,
    Arp,
    Packet,
    Sent,
    multicast_mac,
)
from netfw.testing.conformance.watch.dropped_privileges import without_network_privileges
from netfw.testing.lab.wait import TIMEOUT

T = TypeVar("T")

_ICMP = {4: ICMP, 6: ICMPV6}


@frozen(kw_only=True)
class PlugPoint:
    """Where an instance is plugged; the same for all tests of a class."""

    number: int
    port: PortId
    network: NetworkId
    device: str
    """As :attr:`FilteredPort.device` has it."""


@frozen(kw_only=True)
class FirewallTestPort:
    """A port at a plug point, with addresses that no other test uses."""

    plug_point: PlugPoint
    number: int
    """MAC and addresses are derived from it."""

    @property
    def key(self) -> PortKey:
        return PortKey(self.plug_point.port)

    @property
    def mac(self) -> Mac:
        return Mac(f"fa:16:3e:{self.number.to_bytes(3).hex(':')}")

    @property
    def address(self) -> IPv4Address:
        return IPv4Address("10.16.0.0") + self.number

    @property
    def address6(self) -> IPv6Address:
        return IPv6Address("fd00:16::") + self.number

    @property
    def link_local(self) -> IPv6Address:
        """The link-local address derived from the MAC."""
        return link_local(self.mac)

    def own(self, version: int) -> IpAddress:
        return self.address if version == 4 else self.address6

    def packet(
        self,
        to: FirewallTestPort,
        protocol: int,
        target_port: int = 0,
        *,
        version: int = 4,
        **more: Any,
    ) -> Packet:
        """Make a packet from this port to *to*."""
        frame: dict[str, Any] = {
            "source_mac": self.mac,
            "target_mac": to.mac,
            "source": self.own(version),
            "target": to.own(version),
            "protocol": protocol,
            "source_port": 20000 + self.number % 10000,
            "target_port": target_port,
            **more,
        }
        return Packet(**frame)

    def udp(self, to: FirewallTestPort, port: int, *, version: int = 4, **more: Any) -> Packet:
        return self.packet(to, UDP, port, version=version, body=b"hello", **more)

    def tcp(self, to: FirewallTestPort, port: int, *, version: int = 4, **more: Any) -> Packet:
        """Make the first packet of a connection."""
        return self.packet(to, TCP, port, version=version, **more)

    def ping(self, to: FirewallTestPort, *, version: int = 4, **more: Any) -> Packet:
        echo = {"icmp": ECHO[version], "body": b"echo", **more}
        return self.packet(to, _ICMP[version], version=version, **echo)

    def icmp(
        self, to: FirewallTestPort, kind: tuple[int, int], *, version: int = 4, **more: Any
    ) -> Packet:
        return self.packet(to, _ICMP[version], version=version, icmp=kind, **more)

    def to_group(self, group: str, protocol: int, port: int = 0, **more: Any) -> Packet:
        """Make a multicast packet; with IPv6, from the link-local address."""
        address = IPv4Address(group) if "." in group else IPv6Address(group)
        plain = Packet(
            source_mac=self.mac,
            target_mac=multicast_mac(address),
            source=self.address if address.version == 4 else self.link_local,
            target=address,
            protocol=protocol,
            source_port=20000 + self.number % 10000,
            target_port=port,
        )
        return evolve(plain, **more)

    def arp(self, to: FirewallTestPort, **more: Any) -> Arp:
        plain = Arp(source_mac=self.mac, sender=self.address, target=to.address)
        return evolve(plain, **more)

    def advertisement(self, to: FirewallTestPort, claims: IPv6Address, **more: Any) -> Packet:
        """Make a neighbour advertisement of *claims*."""
        frame = self.icmp(to, NEIGHBOUR_ADVERTISEMENT, version=6, claims=claims)
        return evolve(frame, **more)

    def __str__(self) -> str:
        return f"{self.address} at plug point {self.plug_point.number}"


def answer(packet: Packet, **more: Any) -> Packet:
    """Make the reply to *packet*."""
    back = evolve(
        packet,
        source_mac=Mac(packet.target_mac),
        target_mac=packet.source_mac,
        source=packet.target,
        target=packet.source,
        source_port=packet.target_port,
        target_port=packet.source_port,
    )
    if packet.is_icmp and packet.icmp == ECHO[packet.version]:
        back = evolve(back, icmp=ECHO_REPLY[packet.version])
    return evolve(back, **more)


@frozen
class Delivery:
    """A packet to be carried."""

    sender: FirewallTestPort
    receiver: FirewallTestPort
    sent: Sent
    expected: bool
    """Whether it should arrive; decides how long to wait, not what is returned."""
    marked: bool = True
    """Whether ARP replies of the sender reach the receiver in any case."""

    def __str__(self) -> str:
        return f"{self.sent} from {self.sender} to {self.receiver}"


class FirewallEnvironment(ABC):
    """A host on which a firewall driver works, and the means to inspect it.

    The tests of a class share it.
    """

    plug_points: Sequence[PlugPoint]
    """Four on one network and then two on another; each with an instance plugged."""
    event_timeout: ClassVar[float] = TIMEOUT
    """Seconds after which an event of the driver is missing."""

    @abstractmethod
    def make_driver(self) -> FirewallDriver:
        """Return a new driver object, as another process would make one."""

    def killed(self, driver: FirewallDriver) -> None:  # noqa: B027 - most drivers hold nothing
        """Handle the end of the process of *driver*: release what ends with it, such as a lock."""

    def wire(self, ports: Mapping[FirewallTestPort, FilteredPort]) -> None:  # noqa: B027
        """Have the switch admit these ports.

        For a firewall in the switch, do what the switch driver would do.
        """

    @abstractmethod
    def carry(self, deliveries: Iterable[Delivery]) -> tuple[bool, ...]:
        """Send all packets, and return which of them arrived with all fragments.

        Waits for an expected packet; for the others, makes sure that they cannot arrive any more.
        """

    def settle(self) -> None:  # noqa: B027
        """Wait until the changes of the driver apply to every packet.

        For a datapath that caches its tables.
        """

    @abstractmethod
    def dump_state(self) -> frozenset[str]:
        """Return the whole state of the firewall as text without counters."""

    @abstractmethod
    def lose_state(self) -> None:
        """Lose what the driver made, as by a restart of the switch or the host."""

    @abstractmethod
    def make_foreign(self) -> None:
        """Create what another program could have in the same tables."""

    @abstractmethod
    def foreign_is_intact(self) -> bool:
        """Return whether what `make_foreign` created is intact, and remove it."""

    def outage(self) -> AbstractContextManager[None] | None:
        """Return a context in which the backend is unreachable; ``None``: it is the kernel."""
        return None

    def refused(self, call: Callable[[], T]) -> T:
        """Return the result of *call*, to which the kernel refuses every change of the network."""
        return without_network_privileges(call)
