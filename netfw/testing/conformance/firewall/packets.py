"""Packets of the firewall suite, as values.  Pure."""

from __future__ import annotations

import enum
from ipaddress import IPv4Address, IPv6Address

from attrs import frozen

from netfw.model.values.address import IpAddress, Mac
from netfw.model.values.protocol import ICMP, ICMPV6, TCP, UDP

BROADCAST = "ff:ff:ff:ff:ff:ff"
DESTINATION_UNREACHABLE = {4: (3, 3), 6: (1, 4)}
ECHO = {4: (8, 0), 6: (128, 0)}
ECHO_REPLY = {4: (0, 0), 6: (129, 0)}
ROUTER_SOLICITATION, ROUTER_ADVERTISEMENT = (133, 0), (134, 0)
NEIGHBOUR_SOLICITATION, NEIGHBOUR_ADVERTISEMENT = (135, 0), (136, 0)
MLD_QUERY, MLD_REPORT, MLD_DONE, MLD2_REPORT = (130, 0), (131, 0), (132, 0), (143, 0)


class Flags(enum.IntFlag):
    """Of TCP."""

    FIN = 1
    SYN = 2
    RST = 4
    PSH = 8
    ACK = 16


@frozen(kw_only=True)
class Packet:
    """A packet of IPv4 or IPv6."""

    source_mac: Mac
    target_mac: str
    """May be a multicast one, which no port has."""
    source: IpAddress
    target: IpAddress
    protocol: int
    source_port: int = 0
    target_port: int = 0
    icmp: tuple[int, int] = (0, 0)
    """Type and code, where it is ICMP."""
    claims: IPv6Address | None = None
    """The address that a neighbour solicitation or advertisement is about."""
    identifier: int = 0
    """Of an echo and its reply."""
    flags: Flags = Flags.SYN
    sequence: int = 1000
    acknowledged: int = 0
    body: bytes = b""
    about: Packet | None = None
    """The packet that an ICMP error quotes."""
    spoilt: bool = False
    """Its checksum is wrong."""
    pieces: int = 1
    """It is sent in so many fragments."""
    vlan: int | None = None
    """It is sent with a tag."""

    @property
    def version(self) -> int:
        return self.source.version

    @property
    def is_icmp(self) -> bool:
        return self.protocol == (ICMP if self.version == 4 else ICMPV6)

    def __str__(self) -> str:
        if self.is_icmp:
            what = f"ICMP type {self.icmp[0]} code {self.icmp[1]}"
        elif self.protocol in (TCP, UDP):
            name = f"TCP {self.flags!r}" if self.protocol == TCP else "UDP"
            what = f"{name} from {self.source_port} to {self.target_port}"
        else:
            what = f"protocol {self.protocol}"
        return f"{what} from {self.source_mac} {self.source} to {self.target_mac} {self.target}"


@frozen(kw_only=True)
class Arp:
    """An ARP request or answer."""

    source_mac: Mac
    """Source of the frame, and, without ``sender_mac``, sender in the ARP payload."""
    sender: IPv4Address
    target: IPv4Address
    target_mac: str = BROADCAST
    sender_mac: Mac | None = None
    answer: bool = False

    def __str__(self) -> str:
        what = "answer" if self.answer else "request"
        speaks_of = self.sender_mac or self.source_mac
        return f"ARP {what} of {self.source_mac}: {self.sender} is at {speaks_of}"


@frozen(kw_only=True)
class Other:
    """A frame that is neither of the above."""

    source_mac: Mac
    target_mac: str
    ethertype: int

    def __str__(self) -> str:
        return f"a frame of type {self.ethertype:#06x} from {self.source_mac}"


Sent = Packet | Arp | Other


def multicast_mac(group: IpAddress) -> str:
    """Return the MAC address of packets to *group*."""
    if isinstance(group, IPv6Address):
        return (b"\x33\x33" + group.packed[12:]).hex(":")
    if group == IPv4Address("255.255.255.255"):
        return BROADCAST
    return (b"\x01\x00\x5e" + (int(group) & 0x7FFFFF).to_bytes(3)).hex(":")
