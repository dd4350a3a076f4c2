"""Ethernet frames of requests and replies: UDP and ICMPv6.  Pure."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from struct import Struct
from typing import Final

from attrs import frozen

from netfw.model.values.address import Mac, link_local
from netfw_drivers.ovs.dhcp.plan.leases import octets

_ETHERNET: Final = Struct("!6s6sH")
_IPV4: Final = Struct("!BBHHHBBH4s4s")
_IPV6: Final = Struct("!IHBB16s16s")
_UDP: Final = Struct("!HHHH")
_PSEUDO4, _PSEUDO6 = Struct("!4s4sxBH"), Struct("!16s16sII")
_TYPE_IPV4, _TYPE_IPV6 = 0x0800, 0x86DD
_UDP_PROTOCOL, _ICMPV6 = 17, 58
_TTL, _HOP_LIMIT = 64, 255
_BROADCAST_MAC: Final = b"\xff" * 6
BROADCAST: Final = IPv4Address("255.255.255.255")


@frozen(kw_only=True)
class Datagram:
    """The payload of a frame, and its sender."""

    mac: bytes
    source: IPv4Address | IPv6Address
    payload: bytes


def parse_udp4(frame: bytes) -> Datagram | None:
    """Return the UDP payload of an IPv4 frame; ``None``: it has none, or only a part of it."""
    if len(frame) < _ETHERNET.size + _IPV4.size:
        return None
    _, mac, kind = _ETHERNET.unpack_from(frame)
    version, _, total, _, fragment, _, protocol, _, source, _ = _IPV4.unpack_from(frame, 14)
    start, end = 14 + (version & 15) * 4, 14 + total
    is_udp = (kind, version >> 4, protocol) == (_TYPE_IPV4, 4, _UDP_PROTOCOL)
    if not is_udp or fragment & 0x3FFF or version & 15 < 5 or end > len(frame):
        return None
    payload = _udp_payload(frame[start:end])
    if payload is None:
        return None
    return Datagram(mac=mac, source=IPv4Address(source), payload=payload)


def parse_udp6(frame: bytes) -> Datagram | None:
    """Return the UDP payload of an IPv6 frame without extension headers, or ``None``."""
    datagram = _parse_ipv6(frame, _UDP_PROTOCOL)
    if datagram is None:
        return None
    payload = _udp_payload(datagram.payload)
    if payload is None:
        return None
    return Datagram(mac=datagram.mac, source=datagram.source, payload=payload)


def parse_icmpv6(frame: bytes) -> Datagram | None:
    """Return the message of an ICMPv6 frame without extension headers, or ``None``."""
    return _parse_ipv6(frame, _ICMPV6)


def _parse_ipv6(frame: bytes, wanted: int) -> Datagram | None:
    if len(frame) < _ETHERNET.size + _IPV6.size:
        return None
    _, mac, kind = _ETHERNET.unpack_from(frame)
    first, length, protocol, _, source, _ = _IPV6.unpack_from(frame, 14)
    if (kind, first >> 28, protocol) != (_TYPE_IPV6, 6, wanted) or 54 + length > len(frame):
        return None
    return Datagram(mac=mac, source=IPv6Address(source), payload=frame[54 : 54 + length])


def _udp_payload(segment: bytes) -> bytes | None:
    if len(segment) < _UDP.size:
        return None
    _, _, length, _ = _UDP.unpack_from(segment)
    return segment[_UDP.size : length] if _UDP.size <= length <= len(segment) else None


def render_udp4(
    payload: bytes, server: Mac, client: Mac, source: IPv4Address, destination: IPv4Address
) -> bytes:
    """Return the frame of a DHCP reply."""
    to = _BROADCAST_MAC if destination == BROADCAST else octets(client)
    length = _UDP.size + len(payload)
    pseudo = _PSEUDO4.pack(source.packed, destination.packed, _UDP_PROTOCOL, length)
    udp = _checksummed_udp(67, 68, payload, pseudo)
    addresses = source.packed, destination.packed
    head = _IPV4.pack(0x45, 0, _IPV4.size + length, 0, 0, _TTL, _UDP_PROTOCOL, 0, *addresses)
    checksum = internet_checksum(head)
    head = head[:10] + checksum.to_bytes(2, "big") + head[12:]
    return _ETHERNET.pack(to, octets(server), _TYPE_IPV4) + head + udp


def render_udp6(payload: bytes, server: Mac, client: Mac, destination: IPv6Address) -> bytes:
    """Return the frame of a DHCPv6 reply."""
    source, length = link_local(server), _UDP.size + len(payload)
    pseudo = _PSEUDO6.pack(source.packed, destination.packed, length, _UDP_PROTOCOL)
    udp = _checksummed_udp(547, 546, payload, pseudo)
    return _render_ipv6(udp, _UDP_PROTOCOL, server, client, destination)


def render_icmpv6(message: bytes, server: Mac, client: Mac, destination: IPv6Address) -> bytes:
    """Return the frame of *message*, whose checksum is zero, with its checksum."""
    source = link_local(server)
    pseudo = _PSEUDO6.pack(source.packed, destination.packed, len(message), _ICMPV6)
    checksum = internet_checksum(pseudo + message)
    whole = message[:2] + checksum.to_bytes(2, "big") + message[4:]
    return _render_ipv6(whole, _ICMPV6, server, client, destination)


def _render_ipv6(
    payload: bytes, protocol: int, server: Mac, client: Mac, destination: IPv6Address
) -> bytes:
    addresses = link_local(server).packed, destination.packed
    head = _IPV6.pack(6 << 28, len(payload), protocol, _HOP_LIMIT, *addresses)
    return _ETHERNET.pack(octets(client), octets(server), _TYPE_IPV6) + head + payload


def _checksummed_udp(source: int, destination: int, payload: bytes, pseudo: bytes) -> bytes:
    head = _UDP.pack(source, destination, _UDP.size + len(payload), 0)
    checksum = internet_checksum(pseudo + head + payload) or 0xFFFF
    return head[:6] + checksum.to_bytes(2, "big") + payload


def internet_checksum(data: bytes) -> int:
    """Return the checksum of the internet protocols."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(Struct(f"!{len(data) // 2}H").unpack(data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
