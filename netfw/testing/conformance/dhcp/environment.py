"""The environment of the DHCP suite beside the driver: hosts, instances and their inspection.

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
from netfw.model.values.address import IpAddress, IpInterface, Mac
from netfw.model.values.ids import NetworkId
from netfw.testing.lab.dhcp_lease import Announcement, ClientLease, Lease6


@frozen(kw_only=True)
class FoundServer:
    """The server of a network as the host has it."""

    mac: Mac
    mtu: int
    addresses: frozenset[IpInterface]
    """Without the link-local address that the kernel derives from the MAC."""
    gateways: frozenset[IpAddress] = frozenset()
    """Gateways of the default routes."""
    listens: bool = True
    """Whether a process listens for clients."""
    processes: frozenset[int] = frozenset()
    """Process ids of its servers; empty where the driver serves it by itself."""


class DhcpClientVm(ABC):
    """An instance that is plugged into a network, and its client.

    *requested* are the numbers of options that it requests beside the usual ones, *sent_options*
    the options that it sends.  A lease is ``None`` if the request was refused or not answered; with
    *expected* false the client does not wait long for an answer.
    """

    @abstractmethod
    def lease(
        self,
        requested: Collection[int] = (),
        *,
        sent_options: Mapping[int, bytes] | None = None,
        expected: bool = True,
    ) -> ClientLease | None:
        """Request a lease as a new client."""

    @abstractmethod
    def renew(self) -> ClientLease | None:
        """Renew the lease at the server that gave it."""

    @abstractmethod
    def release(self) -> None:
        """Release the lease."""

    @abstractmethod
    def leave(self) -> None:
        """Stop without a release."""

    @abstractmethod
    def boot(self, requested: Collection[int] = ()) -> ClientLease | None:
        """Boot with another kind of client; the second time it requests its previous lease."""

    @abstractmethod
    def announcement(self, *, expected: bool = True) -> Announcement | None:
        """Solicit routers, and return the first advertisement."""

    @abstractmethod
    def lease6(self, *, stateless: bool = False, expected: bool = True) -> Lease6 | None:
        """Request IPv6 addresses and options, or options alone, as a new client."""

    @abstractmethod
    def renew6(self) -> Lease6 | None:
        """Renew the IPv6 lease."""

    @abstractmethod
    def release6(self) -> None:
        """Release the IPv6 lease."""

    @abstractmethod
    def made_addresses(self, prefix_of: IPv6Address) -> frozenset[IPv6Address]:
        """Return its SLAAC addresses, once there is one in the /64 of *prefix_of*."""


class DhcpEnvironment(ABC):
    """A host with a switch on which a DHCP driver works, and a second one on the same networks.

    The tests of a class share it.
    """

    timeout: ClassVar[float] = 10.0
    """Seconds to wait for an expected event."""

    @property
    def used(self) -> tuple[bool, ...]:
        """The hosts that drivers were made for, as `make_driver` names them."""
        return (False, True)

    @abstractmethod
    def make_driver(self, second: bool = False) -> DhcpDriver:
        """Return a new driver object for the host or the second, as another process would."""

    @abstractmethod
    def killed(self, driver: DhcpDriver) -> None:
        """Handle the end of the process of *driver*: its threads, and what ends with a process.

        Idempotent.
        """

    @abstractmethod
    def admit(self, network: NetworkId, server: ServerPort) -> None:
        """Admit the port *server* of *network* once its device is plugged."""

    @abstractmethod
    def client(self, network: NetworkId, mac: Mac) -> DhcpClientVm:
        """Return the instance of *mac* on *network*, plugged and live; a new one has no address."""

    @abstractmethod
    def dismiss(self) -> None:
        """Remove all clients."""

    @abstractmethod
    def server(self, network: NetworkId, server: ServerPort) -> FoundServer | None:
        """Return the server as the host has it, read without the driver; ``None``: no device."""

    @abstractmethod
    def is_at(self, location: DhcpLocation, server: ServerPort) -> bool:
        """Return whether the device of *server* is at *location*."""

    @abstractmethod
    def dump_state(self) -> frozenset[str]:
        """Return everything that drivers could leave behind: namespaces, devices, processes, files.

        As text that contains the ids of networks and ports.
        """

    @abstractmethod
    def contains(self, text: str) -> bool:
        """Return whether *text* is in a file or a command line of the driver."""

    @abstractmethod
    def kill_server(self, network: NetworkId, server: ServerPort) -> None:
        """Kill the processes that serve *network*, as a crash would."""

    @abstractmethod
    def restart_host(self) -> None:
        """Reboot the host: processes, namespaces and devices are gone, files are not."""

    @abstractmethod
    def vanish(self, network: NetworkId, value: DhcpNetwork) -> None:
        """Remove what the driver made for *network*, without the driver."""

    @abstractmethod
    def make_foreign(self, value: DhcpNetwork) -> None:
        """Create something with the name that the device needs, without the driver."""

    @abstractmethod
    def foreign_is_intact(self, value: DhcpNetwork) -> bool:
        """Return whether what `make_foreign` created is unchanged."""

    @abstractmethod
    def outage(self) -> AbstractContextManager[None]:
        """Return a context in which the switch is unreachable."""

    def drifts(self) -> Mapping[str, Callable[[NetworkId, DhcpNetwork], None]]:
        """Return ways to damage what the driver made, by name; for ``HostCapability.PLAN``."""
        raise NotImplementedError("override `drifts`: what can other programs change?")
