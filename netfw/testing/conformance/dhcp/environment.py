"""What the suite of DHCP drivers needs beside the driver: a host, guests, and how to look at them.

A vendor writes one :class:`DhcpEnvironment`, with real clients by way of
:class:`netfw.testing.conformance.dhcp.lab_environment.DhcpLabEnvironment`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from ipaddress import IPv6Address
from typing import ClassVar

from attrs import frozen

from netfw.drivers.dhcp import DhcpDriver, DhcpLocation, DhcpNetwork, ServerPort
from netfw.model.address import IpAddress, IpInterface, Mac
from netfw.model.ids import NetworkId
from netfw.testing.lab.dhcp_lease import Announcement, Lease, Lease6


@frozen(kw_only=True)
class FoundServer:
    """What the host has of a network that is served."""

    mac: Mac
    mtu: int
    addresses: frozenset[IpInterface]
    """Those that stay; the one that the kernel makes of the MAC left out."""
    gateways: frozenset[IpAddress] = frozenset()
    """Of its default routes."""
    listens: bool = True
    """Somebody waits for clients there."""
    processes: frozenset[int] = frozenset()
    """Those that serve it and nothing else; none where the driver serves it by itself."""


class DhcpClientVm(ABC):
    """An instance that is plugged into a network, and its client.

    *asked* are the numbers of options that it requests beside the usual ones, *said* the options
    that it sends.  A lease is ``None`` if the request was refused or not answered; with *expected*
    false the client does not wait long for an answer.
    """

    @abstractmethod
    def lease(
        self,
        asked: Collection[int] = (),
        *,
        said: Mapping[int, bytes] | None = None,
        expected: bool = True,
    ) -> Lease | None:
        """Ask as one who just came."""

    @abstractmethod
    def renew(self) -> Lease | None:
        """Ask the server whose lease it has for the same again."""

    @abstractmethod
    def release(self) -> None:
        """Give the lease back."""

    @abstractmethod
    def leave(self) -> None:
        """Be gone without a word."""

    @abstractmethod
    def boot(self, asked: Collection[int] = ()) -> Lease | None:
        """Be started, by another kind of client; the second time it remembers the first."""

    @abstractmethod
    def announcement(self, *, expected: bool = True) -> Announcement | None:
        """Ask the routers of the network; what the first one to answer says."""

    @abstractmethod
    def lease6(self, *, stateless: bool = False, expected: bool = True) -> Lease6 | None:
        """Ask for IPv6 addresses and the rest, or for the rest alone, as one who just came."""

    @abstractmethod
    def renew6(self) -> Lease6 | None:
        """Ask for the same IPv6 address again."""

    @abstractmethod
    def release6(self) -> None:
        """Give the IPv6 address back."""

    @abstractmethod
    def made_addresses(self, prefix_of: IPv6Address) -> frozenset[IPv6Address]:
        """What it made by itself of announcements, once something in the /64 of *prefix_of* is."""


class DhcpEnvironment(ABC):
    """A host with a switch on which a DHCP driver works, and a second one on the same networks.

    It is shared by the tests of a class.
    """

    patience: ClassVar[float] = 10.0
    """Seconds to wait for what must come."""

    @property
    def used(self) -> tuple[bool, ...]:
        """The hosts that drivers were made for, as `make_driver` names them."""
        return (False, True)

    @abstractmethod
    def make_driver(self, second: bool = False) -> DhcpDriver:
        """A new driver object, as another process would make one, for the host or the second."""

    @abstractmethod
    def killed(self, driver: DhcpDriver) -> None:
        """The process of *driver* is killed: its threads end, and what ends with a process.  It may
        be told of one that it was told of before.
        """

    @abstractmethod
    def know(self, network: NetworkId, server: ServerPort) -> None:
        """*server* is a port of *network*: once its device is plugged, its traffic may pass."""

    @abstractmethod
    def client(self, network: NetworkId, mac: Mac) -> DhcpClientVm:
        """The instance of *mac* on *network*, plugged and live; a new one has no address yet."""

    @abstractmethod
    def dismiss(self) -> None:
        """All guests are gone."""

    @abstractmethod
    def server(self, network: NetworkId, server: ServerPort) -> FoundServer | None:
        """What there is of the server, found out without the driver; ``None``: no device."""

    @abstractmethod
    def is_at(self, place: DhcpLocation, server: ServerPort) -> bool:
        """Whether the device of *server* is at *place*."""

    @abstractmethod
    def dump_state(self) -> frozenset[str]:
        """All that drivers could leave behind, as text with ids of networks and ports in it:
        namespaces, devices, processes, files.
        """

    @abstractmethod
    def contains(self, text: str) -> bool:
        """Whether *text* is anywhere in what the driver wrote, or in how it starts processes."""

    @abstractmethod
    def kill_server(self, network: NetworkId, server: ServerPort) -> None:
        """Kill the processes that serve *network*, as a crash would."""

    @abstractmethod
    def restart_host(self) -> None:
        """The host was started again: processes, namespaces and devices are gone, files are not."""

    @abstractmethod
    def vanish(self, network: NetworkId, value: DhcpNetwork) -> None:
        """Remove what the driver made for *network*, not through the driver."""

    @abstractmethod
    def make_foreign(self, value: DhcpNetwork) -> None:
        """Make, not through the driver, something that has the name that the device needs."""

    @abstractmethod
    def foreign_is_intact(self, value: DhcpNetwork) -> bool:
        """Whether that is still there, as it was."""

    @abstractmethod
    def outage(self) -> AbstractContextManager[None]:
        """Within it the switch does not answer; after it, it does."""

    def drifts(self) -> Mapping[str, Callable[[NetworkId, DhcpNetwork], None]]:
        """Ways to spoil what the driver made, by name; asked with ``HostCapability.PLAN``."""
        raise NotImplementedError("override `drifts`: what can go wrong on your machine?")
