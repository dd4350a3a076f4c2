"""Frames that announce addresses, or withdraw prefixes.  Pure: values in, bytes out."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network

from netfw.model.values.address import IpAddress, Mac

_BROADCAST = b"\xff" * 6
_ALL_NODES = IPv6Address("ff02::1")
_ARP, _IPV6 = 0x0806, 0x86DD
_REQUEST, _REPLY = 1, 2
_ICMPV6, _NEIGHBOUR_ADVERTISEMENT = 58, 136
_ROUTER, _OVERRIDE = 0x80000000, 0x20000000
_TARGET_LINK_ADDRESS = 2
_ROUTER_ADVERTISEMENT, _PREFIX = 134, 3
_ON_LINK, _AUTONOMOUS = 0x80, 0x40


def announcement(
    mac: Mac, address: IpAddress, router: bool = False, arp_destination: Mac | None = None
) -> tuple[bytes, ...]:
    """Build the frames that announce to the link that *mac* has *address*.

    IPv4: a gratuitous ARP as a request and as a reply, because some hosts accept one only.
    IPv6: an unsolicited neighbour advertisement.

    :param router: whether IPv6 neighbours may take the sender for a router.
    :param arp_destination: the destination of the gratuitous ARPs; None: all.
    """
    if isinstance(address, IPv4Address):
        return tuple(_arp(mac, address, kind, arp_destination) for kind in (_REQUEST, _REPLY))
    return (_advertisement(mac, address, router),)


def withdrawal(prefixes: Iterable[IPv6Network]) -> bytes:
    """Build a router advertisement that withdraws the router and *prefixes*.

    It is the ICMPv6 message alone: a raw socket adds the headers and the checksum.
    """
    head = struct.pack("!BBHBBHII", _ROUTER_ADVERTISEMENT, 0, 0, 0, 0, 0, 0, 0)
    options = (
        struct.pack("!BBBBIII", _PREFIX, 4, each.prefixlen, _ON_LINK | _AUTONOMOUS, 0, 0, 0)
        + each.network_address.packed
        for each in prefixes
    )
    return head + b"".join(options)


def _octets(mac: Mac) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def _arp(mac: Mac, address: IPv4Address, operation: int, destination: Mac | None) -> bytes:
    own = _octets(mac)
    target = own if operation == _REPLY else bytes(6)
    return (
        (_octets(destination) if destination else _BROADCAST)
        + own
        + struct.pack("!HHHBBH", _ARP, 1, 0x0800, 6, 4, operation)
        + own
        + address.packed
        + target
        + address.packed
    )


def _advertisement(mac: Mac, address: IPv6Address, router: bool) -> bytes:
    flags = _OVERRIDE | (_ROUTER if router else 0)
    option = struct.pack("!BB", _TARGET_LINK_ADDRESS, 1) + _octets(mac)
    rest = struct.pack("!I", flags) + address.packed + option
    head = struct.pack("!BB", _NEIGHBOUR_ADVERTISEMENT, 0)
    length = len(head) + 2 + len(rest)
    pseudo = address.packed + _ALL_NODES.packed + struct.pack("!II", length, _ICMPV6)
    checksum = _checksum(pseudo + head + b"\0\0" + rest)
    packet = struct.pack("!IHBB", 6 << 28, length, _ICMPV6, 255)
    packet += address.packed + _ALL_NODES.packed
    ethernet = b"\x33\x33" + _ALL_NODES.packed[-4:] + _octets(mac) + struct.pack("!H", _IPV6)
    return ethernet + packet + head + struct.pack("!H", checksum) + rest


def _checksum(data: bytes) -> int:
    """Return the Internet checksum of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
