"""Tracked connections as values, and filters of them.  Pure."""

from __future__ import annotations

import enum
from ipaddress import IPv4Network, IPv6Network

from attrs import field, frozen

from netfw.model.values.address import IpAddress, IpNetwork
from netfw.model.values.port_range import PortRange

PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17, "gre": 47, "ipv6-icmp": 58, "sctp": 132}


class ConntrackStatus(enum.IntFlag):
    """Status bits of a connection (the more useful ones)."""

    EXPECTED = 1
    SEEN_REPLY = 2
    ASSURED = 4
    CONFIRMED = 8
    SNAT = 16
    DNAT = 32
    DYING = 512


@frozen(kw_only=True)
class ConntrackTuple:
    """One direction of a connection; ICMP has no ports."""

    protocol: int
    source: IpAddress
    destination: IpAddress
    source_port: int | None = None
    destination_port: int | None = None


@frozen(kw_only=True)
class TrackedConnection:
    """A tracked connection; *timeout* is how many seconds it has left without packets."""

    original: ConntrackTuple
    reply: ConntrackTuple
    mark: int = 0
    zone: int = 0
    status: ConntrackStatus = field(converter=ConntrackStatus)
    timeout: int = field(default=0, eq=False)

    @property
    def family(self) -> int:
        return self.original.source.version

    @property
    def addresses(self) -> tuple[IpAddress, ...]:
        """Source and destination of both directions."""
        original, reply = self.original, self.reply
        return original.source, original.destination, reply.source, reply.destination


@frozen
class ConntrackEntry:
    """A connection as the kernel identifies it; *raw* is its original direction, as received."""

    connection: TrackedConnection
    id: int
    address_family: int
    raw: bytes = field(repr=False)


@frozen(kw_only=True)
class Filter:
    """Connections that fulfil everything that is given; with nothing given, all of them."""

    family: int | None = None
    zone: int | None = None
    protocol: int | None = None
    address: IpNetwork | None = None
    """Addresses that occur as source or destination, in either direction."""
    source: IpNetwork | None = None
    """Source of the original direction."""
    destination: IpNetwork | None = None
    """Destination of the original direction, before any translation."""
    source_port: int | None = None
    destination_port: int | None = None
    destination_ports: PortRange | None = None
    mark: int | None = None
    mark_mask: int = 0xFFFFFFFF

    @property
    def shared_address(self) -> IpAddress | None:
        """An address that all these connections have; None if no single one is given."""
        for network in (self.address, self.source, self.destination):
            if network is not None and network.prefixlen == network.max_prefixlen:
                return network.network_address
        return None

    def takes(self, connection: TrackedConnection) -> bool:
        """Return whether *connection* matches."""
        flow = connection.original
        return (
            _same(self.family, connection.family)
            and _same(self.zone, connection.zone)
            and _same(self.protocol, flow.protocol)
            and _same(self.source_port, flow.source_port)
            and _same(self.destination_port, flow.destination_port)
            and _among(self.destination_ports, flow.destination_port)
            and (self.mark is None or connection.mark & self.mark_mask == self.mark)
            and _within(self.source, flow.source)
            and _within(self.destination, flow.destination)
            and self._touches(connection)
        )

    def _touches(self, connection: TrackedConnection) -> bool:
        ends = connection.addresses
        return self.address is None or any(_within(self.address, end) for end in ends)


def _same(wanted: int | None, have: int | None) -> bool:
    return wanted is None or wanted == have


def _among(ports: PortRange | None, port: int | None) -> bool:
    return ports is None or (port is not None and port in ports)


def _within(network: IPv4Network | IPv6Network | None, address: IpAddress) -> bool:
    return network is None or address in network
