"""Fake hosts that serve DHCP."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from threading import RLock

from attrs import define, evolve, field

from netfw.drivers.dhcp import DhcpNetwork, DhcpPort
from netfw.drivers.values.events import ProcessDied, Sink
from netfw.drivers.values.keys import NetworkKey
from netfw.errors import BackendUnavailable
from netfw.model.values.address import IpAddress, IpInterface, Mac
from netfw.model.values.ids import NetworkId, PortId
from netfw.testing.lab.dhcp_lease import Announcement, ClientLease, Lease6


@define
class Entry:
    """What a server sends to the client of one port."""

    mac: Mac
    leases: tuple[ClientLease, ...] = ()
    ipxe: tuple[ClientLease, ...] = ()
    lease6: Lease6 | None = None


@define
class Serving:
    """A network on a host: its server process and leases."""

    value: DhcpNetwork
    addresses: frozenset[IpInterface]
    gateways: frozenset[IpAddress]
    process: int
    alive: bool = True
    announcement: Announcement | None = None
    entries: dict[PortId, Entry] = field(factory=dict)
    leases: dict[IpAddress, Mac] = field(factory=dict)
    """Leases in the memory of the process."""


@define
class FakeDhcpBackend:
    """One host: its networks and ports, and what was written."""

    online: bool = True
    nets: dict[NetworkId, Serving] = field(factory=dict)
    ports: dict[PortId, DhcpPort] = field(factory=dict)
    stored: dict[NetworkId, dict[IpAddress, Mac]] = field(factory=dict)
    """Leases on disk."""
    texts: dict[object, str] = field(factory=dict)
    left: set[str] = field(factory=set)
    """Garbage that a mutation leaves."""
    foreign: set[PortId] = field(factory=set)
    sinks: list[Sink] = field(factory=list)
    faults: set[str] = field(factory=set)
    """Faults of the servers that a mutation switches on."""
    pids: Iterator[int] = field(factory=lambda: count(100))
    lock: RLock = field(factory=RLock)

    def check_online(self) -> None:
        if not self.online:
            raise BackendUnavailable("the host is offline")

    def entries(self, network: NetworkId, mac: Mac) -> Iterator[tuple[Serving, Entry]]:
        """Yield what the client *mac* on *network* receives."""
        for id, serving in self.nets.items():
            if (id == network or "networks" in self.faults) and serving.alive:
                known = [entry for entry in serving.entries.values() if entry.mac == mac]
                if not known and "unknown clients" in self.faults:
                    known = [evolve(entry, mac=mac) for entry in serving.entries.values()]
                yield from ((serving, entry) for entry in known)

    def kill(self, network: NetworkId) -> None:
        serving = self.nets[network]
        serving.alive, serving.process = False, 0
        for sink in self.sinks:
            sink(ProcessDied("it was killed", {NetworkKey(network)}))
