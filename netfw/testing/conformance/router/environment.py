"""What the suite of router drivers needs beside the driver: a host, networks, and machines on them.

A vendor writes one :class:`RouterEnvironment`, with real packets by way of
:class:`netfw.testing.conformance.router.lab_environment.RouterLabEnvironment`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from ipaddress import IPv6Network
from typing import ClassVar

from attrs import field, frozen

from netfw.drivers.router import RouterDriver
from netfw.drivers.values.keys import RouterKey
from netfw.drivers.values.router_values import RouterPort, RouterState
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.address import IpAddress, IpInterface, Mac
from netfw.model.values.ids import NetworkId, PortId, RouterId

TCP, UDP = "tcp", "udp"


@frozen(kw_only=True)
class ReceivedEcho:
    """A request as the machine that answered it received it."""

    at: str
    """Name of the machine."""
    source: IpAddress
    source_port: int = 0
    hops: int = 0
    """By how much the TTL or hop limit was lowered on the way."""


@frozen(kw_only=True)
class ReceivedAdvertisement:
    """A router advertisement as a machine received it."""

    prefixes: frozenset[str]
    """Prefixes with a valid lifetime."""
    withdrawn: frozenset[str] = frozenset()
    """Prefixes with a preferred lifetime of 0."""
    mode: Ipv6Mode | None = None
    """By the flags: M is stateful, O without M is stateless, neither is SLAAC."""
    mtu: int | None = None
    name_servers: frozenset[IpAddress] = frozenset()
    source: IpAddress | None = None
    """Address of the router that sent it."""


@frozen(kw_only=True)
class RouterOnHost:
    """A router as the host has it, read without the driver."""

    addresses: Mapping[PortId, frozenset[IpInterface]] = field(factory=dict)
    """By port: addresses of its device, without link-local ones."""
    macs: Mapping[PortId, Mac] = field(factory=dict)
    mtus: Mapping[PortId, int] = field(factory=dict)


class Stream(ABC):
    """An established TCP connection, over which both ends send small messages."""

    @abstractmethod
    def is_alive(self) -> bool:
        """Send a message and return whether its echo comes back within a second."""

    def stays_alive(self) -> bool:
        """Send a message and return whether its echo comes back, which may be late on a busy
        machine."""
        return self.is_alive()

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


class Traffic(ABC):
    """Echo requests that are sent every 10 ms until stopped."""

    @abstractmethod
    def stop(self) -> int:
        """Stop, wait for outstanding answers, and return the number of lost requests."""


class Machine(ABC):
    """A machine on a network: an instance, or something outside the cloud.

    Every machine answers echo requests, and echoes what comes to any TCP or UDP port in
    ``RouterEnvironment.PORTS``, saying what it received.
    """

    name: str
    mac: Mac

    @abstractmethod
    def reach(
        self, address: IpAddress, protocol: str = "icmp", port: int = 0, source_port: int = 0
    ) -> ReceivedEcho | None:
        """Send one request and return how it arrived; ``None``: no answer came."""

    @abstractmethod
    def count_answers(self, address: IpAddress) -> int:
        """Send one echo request, and return how many answers come, a second after the first."""

    @abstractmethod
    def connect(self, address: IpAddress, port: int) -> Stream | None:
        """Open a connection; ``None``: it was refused, or nothing answered."""

    @abstractmethod
    def traffic(self, address: IpAddress) -> Traffic:
        """Start echo requests to *address*."""

    @abstractmethod
    def path_mtu(self, address: IpAddress, size: int) -> int | None:
        """Send a packet of *size* bytes that must not be fragmented to *address*; return the MTU
        that an answer names, or ``None`` if it arrives or nothing is answered."""

    @abstractmethod
    def announced(
        self, address: IpAddress, stale: Mac, action: Callable[[], None]
    ) -> tuple[Mac | None, ReceivedEcho | None]:
        """Have the machine believe that *address* is at *stale*, and run *action*.

        Return the MAC address that an announcement then told it, and how a request arrived that it
        sent at the moment of the announcement; ``None``: no announcement, no answer.
        """

    @abstractmethod
    def advertisement(self) -> ReceivedAdvertisement | None:
        """Solicit routers and return the advertisement; ``None``: none came."""

    @abstractmethod
    def advertise_router(self) -> None:
        """Advertise this machine to its network as an IPv6 default router, once."""

    @abstractmethod
    def metadata(self, address: IpAddress) -> IpAddress | None:
        """Send a request to port 80 of a metadata *address*; return the source address that the
        listener in the router saw, or ``None``."""


class PrefixProvider(ABC):
    """A DHCPv6 server on an external network, which delegates prefixes of 64 bits."""

    @abstractmethod
    def delegate(self, pool: IPv6Network, *, valid: int = 3600) -> None:
        """Delegate prefixes of *pool* from now on, for *valid* seconds; a client has to renew its
        prefix within a few seconds, and gets one of *pool* in place of one of another pool."""

    @abstractmethod
    def stop(self) -> None:
        """Answer no more, and release nothing: the clients' prefixes expire."""


class RouterEnvironment(ABC):
    """A host with a switch on which a router driver works, and networks with machines on it."""

    PORTS: ClassVar[tuple[int, ...]] = (80, 2222, 5000, 5001, 5002, 8080)
    """Ports on which every machine listens, TCP and UDP."""
    timeout: ClassVar[float] = 10.0
    """Seconds to wait for what an idle machine does in one."""
    election: ClassVar[float] = 0.0
    """Seconds after which a highly available router would have changed its role, if it did."""

    @abstractmethod
    def make_driver(self) -> RouterDriver:
        """Return a new driver object for the host, as another process would."""

    @abstractmethod
    def killed(self, driver: RouterDriver) -> None:
        """Handle the end of the process of *driver*: its threads and locks.  Idempotent."""

    @abstractmethod
    def admit(self, ports: Collection[RouterPort], *, wired: bool = True) -> None:
        """Admit these ports of routers to their networks once they are plugged, as a switch driver
        does; with *wired* false move them to the dead VLAN until they are known again."""

    @abstractmethod
    def machine(
        self,
        network: NetworkId,
        addresses: Collection[IpInterface],
        gateways: Collection[IpAddress] = (),
        *,
        mtu: int = 1500,
    ) -> Machine:
        """Plug a new machine with *addresses* into *network*; *gateways* are its default routes."""

    @abstractmethod
    def listen_metadata(self, router: RouterId, state: RouterState) -> None:
        """Have something listen at the metadata port of the router, as its proxy would."""

    @abstractmethod
    def dismiss(self) -> None:
        """Remove all machines and listeners."""

    @abstractmethod
    def found(self, router: RouterId, ports: Collection[RouterPort]) -> RouterOnHost | None:
        """Return the router as the host has it; ``None``: nothing of it is there."""

    @abstractmethod
    def connections(self, *addresses: IpAddress) -> int:
        """Return how many tracked connections of the routers have all of *addresses*."""

    @abstractmethod
    def await_wired(self, ports: Collection[RouterPort]) -> None:
        """Wait until known ports that are plugged are admitted."""

    @abstractmethod
    def dump_state(self) -> frozenset[str]:
        """Return everything that drivers could leave behind: namespaces, devices, processes, files,
        OVS ports, as text that contains the ids of routers and ports."""

    @abstractmethod
    def contains(self, text: str) -> bool:
        """Return whether *text* is in a rule, a file or a command line of the driver."""

    @abstractmethod
    def kill_processes(self, router: RouterId) -> bool:
        """Kill the processes of the router, as a crash would; return false if it has none."""

    @abstractmethod
    def vanish(self, key: RouterKey, value: RouterState) -> None:
        """Remove what the driver made for the router, without the driver."""

    @abstractmethod
    def make_foreign(self, value: RouterState) -> None:
        """Create something with the name that a device of the router needs."""

    @abstractmethod
    def foreign_is_intact(self, value: RouterState) -> bool:
        """Return whether what `make_foreign` created is unchanged."""

    @abstractmethod
    def outage(self) -> AbstractContextManager[None]:
        """Return a context in which the switch is unreachable."""

    @abstractmethod
    def refuse_rules(self, address: IpAddress) -> AbstractContextManager[None]:
        """Return a context in which the backend refuses every rule that has *address*."""

    def drifts(self) -> Mapping[str, Callable[[RouterKey, RouterState], None]]:
        """Return ways to damage what the driver made, by name; for ``HostCapability.PLAN``."""
        raise NotImplementedError("override `drifts`: what can other programs change?")

    def peer(self) -> RouterEnvironment:
        """Return a second host, always the same one; for ``RouterCapability.HA``.

        A network is one on both hosts.  The peer ends with this environment.
        """
        raise NotImplementedError("override `peer`: highly available routers are on two hosts")

    def cut_off(self) -> AbstractContextManager[None]:
        """Return a context in which no frame passes between this host and its peer."""
        raise NotImplementedError("override `cut_off`: how is the host cut off from its peer?")

    def sent_frames(self, ports: Collection[RouterPort]) -> int:
        """Return how many frames the switch has received from these ports so far."""
        raise NotImplementedError("override `sent_frames`: what does the switch count?")

    def prefix_provider(
        self, network: NetworkId, addresses: Collection[IpInterface]
    ) -> PrefixProvider:
        """Plug a provider into an external *network*; for ``RouterCapability.PREFIX_DELEGATION``.

        It delegates nothing yet, and ends with `dismiss`.
        """
        raise NotImplementedError("override `prefix_provider`: which server delegates prefixes?")
