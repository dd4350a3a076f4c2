"""What the suite of firewall drivers needs beside the driver: ports, and packets between them.

A vendor writes one :class:`FirewallEnvironment`, for real packets by way of
:class:`netfw.testing.conformance.firewall.lab_environment.FirewallLabEnvironment`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from attrs import evolve, frozen

from netfw.drivers.firewall import FilteredPort, FirewallDriver
from netfw.drivers.keys import PortKey
from netfw.model.address import IpAddress, Mac, link_local
from netfw.model.ids import NetworkId, PortId
from netfw.model.protocol import ICMP, ICMPV6, TCP, UDP
from netfw.testing.conformance.firewall.packets import (
    ECHO,
    ECHO_REPLY,
    NEIGHBOUR_ADVERTISEMENT,
    Arp,
    Packet,
    Sent,
    multicast_mac,
)

_ICMP = {4: ICMP, 6: ICMPV6}


@frozen(kw_only=True)
class PlugPoint:
    """Where an instance is plugged; it stays so for all tests of a class."""

    number: int
    port: PortId
    network: NetworkId
    device: str
    """As :attr:`FilteredPort.device` has it."""


@frozen(kw_only=True)
class FirewallTestPort:
    """A port on a seat, with addresses that no other test uses: nobody remembers them."""

    plug_point: PlugPoint
    number: int
    """Its MAC and addresses come from it."""

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
        """The one that its MAC implies."""
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
        """Something from here to there."""
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
        """The first packet of a connection."""
        return self.packet(to, TCP, port, version=version, **more)

    def ping(self, to: FirewallTestPort, *, version: int = 4, **more: Any) -> Packet:
        echo = {"icmp": ECHO[version], "body": b"echo", **more}
        return self.packet(to, _ICMP[version], version=version, **echo)

    def icmp(
        self, to: FirewallTestPort, kind: tuple[int, int], *, version: int = 4, **more: Any
    ) -> Packet:
        return self.packet(to, _ICMP[version], version=version, icmp=kind, **more)

    def to_group(self, group: str, protocol: int, port: int = 0, **more: Any) -> Packet:
        """Something to many; from the link-local address where it is IPv6."""
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
        """The neighbour *claims* is here."""
        frame = self.icmp(to, NEIGHBOUR_ADVERTISEMENT, version=6, claims=claims)
        return evolve(frame, **more)

    def __str__(self) -> str:
        return f"{self.address} at seat {self.plug_point.number}"


def answer(packet: Packet, **more: Any) -> Packet:
    """The packet that answers *packet*."""
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
    """Whether it should arrive; it says how to wait, not what is returned."""
    marked: bool = True
    """The sender's ARP answers get there, whatever becomes of this."""

    def __str__(self) -> str:
        return f"{self.sent} from {self.sender} to {self.receiver}"


class FirewallEnvironment(ABC):
    """A host on which a firewall driver works, and how to look at it.

    It is shared by the tests of a class.
    """

    plug_points: Sequence[PlugPoint]
    """Four of one network and then two of another; each with an instance plugged."""

    @abstractmethod
    def make_driver(self) -> FirewallDriver:
        """A new driver object, as another process would make one."""

    def killed(self, driver: FirewallDriver) -> None:  # noqa: B027 - most drivers hold nothing
        """The process of *driver* is killed: what ends with a process, such as a lock, ends."""

    def wire(self, ports: Mapping[FirewallTestPort, FilteredPort]) -> None:  # noqa: B027
        """These ports of the host are live from now on, as far as the switch is concerned.

        For a firewall in the switch, what the agent would tell the switch driver.
        """

    @abstractmethod
    def carry(self, deliveries: Iterable[Delivery]) -> tuple[bool, ...]:
        """Send all of it; which of it arrived, all fragments of it.

        What is hoped for is given time to come; of all else it is known that it will not come any
        more.
        """

    def settle(self) -> None:  # noqa: B027
        """What the driver has changed is in force for every packet from now on.

        For a datapath that looks at its tables now and then.
        """

    @abstractmethod
    def dump_state(self) -> frozenset[str]:
        """Everything that the firewall consists of, as text, counters left out."""

    @abstractmethod
    def lose_state(self) -> None:
        """What the driver made is gone: the switch, or the machine, was started again."""

    @abstractmethod
    def make_foreign(self) -> None:
        """Make, not through the driver, what another program could have in the same place."""

    @abstractmethod
    def foreign_is_intact(self) -> bool:
        """Whether that is still there; and remove it."""

    def outage(self) -> AbstractContextManager[None] | None:
        """Within it the backend does not answer; ``None``: it cannot happen, it is the kernel."""
        return None
