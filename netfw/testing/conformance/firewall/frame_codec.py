"""Packets of the firewall suite as frames on a wire.  Pure."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address

from netfw.model.values.protocol import DCCP, ICMP, ICMPV6, SCTP, TCP, UDP, UDPLITE
from netfw.testing.conformance.firewall.packets import (
    MLD2_REPORT,
    MLD_DONE,
    MLD_QUERY,
    MLD_REPORT,
    NEIGHBOUR_ADVERTISEMENT,
    NEIGHBOUR_SOLICITATION,
    ROUTER_ADVERTISEMENT,
    ROUTER_SOLICITATION,
    Arp,
    Other,
    Packet,
    Sent,
)

_ARP, _IPV4, _IPV6, _VLAN = 0x0806, 0x0800, 0x86DD, 0x8100
_NEIGHBOURHOOD = NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION
_LISTENERS = MLD_QUERY, MLD_REPORT, MLD_DONE, MLD2_REPORT
_ROUTER_ALERT = b"\x00\x05\x02\x00\x00\x01\x00"
_HOP_BY_HOP, _FRAGMENT = 0, 44
_PIECE = 1280
"""No smaller: trackers drop fragments that no honest sender makes."""


def encoded(sent: Sent, token: int) -> tuple[bytes, ...]:
    """Return the frames of *sent*, one but for fragments; *token* distinguishes equal packets."""
    ethernet = _mac(sent.target_mac) + _mac(sent.source_mac)
    if isinstance(sent, Arp):
        return (ethernet + struct.pack("!H", _ARP) + _arp(sent) + struct.pack("!Q", token),)
    if isinstance(sent, Other):
        return (ethernet + struct.pack("!HQ", sent.ethertype, token) + bytes(40),)
    kind = struct.pack("!H", _IPV4 if sent.version == 4 else _IPV6)
    if sent.vlan is not None:
        kind = struct.pack("!HH", _VLAN, sent.vlan) + kind
    return tuple(ethernet + kind + packet for packet in _packets(sent, token))


def recognised(frame: bytes) -> bytes:
    """Return *frame* without what a tracker may have changed: fragment numbers."""
    if frame[12:14] == struct.pack("!H", _IPV6) and frame[20:21] == bytes([_FRAGMENT]):
        return frame[:58] + bytes(4) + frame[62:]
    return frame


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _arp(sent: Arp) -> bytes:
    head = struct.pack("!HHBBH", 1, _IPV4, 6, 4, 2 if sent.answer else 1)
    wanted = _mac(sent.target_mac) if sent.answer else b"\0" * 6
    return (
        head
        + _mac(sent.sender_mac or sent.source_mac)
        + sent.sender.packed
        + wanted
        + sent.target.packed
    )


def _packets(packet: Packet, token: int) -> list[bytes]:
    payload = _transport(packet)
    if packet.pieces == 1:
        return [_ip(packet, payload, token)]
    payload += bytes(packet.pieces * _PIECE - len(payload))
    payload = _transport(packet, payload[len(_transport(packet)) :])
    starts = range(0, packet.pieces * _PIECE, _PIECE)
    last = starts[-1]
    return [
        _piece(packet, payload[start : start + _PIECE], token, start, start != last)
        for start in starts
    ]


def _piece(packet: Packet, payload: bytes, token: int, start: int, more: bool) -> bytes:
    if packet.version == 4:
        return _ipv4(packet, payload, token, start // 8 | (0x2000 if more else 0))
    extension = struct.pack("!BBHI", packet.protocol, 0, start | more, token & 0xFFFFFFFF)
    return _ipv6(packet, extension + payload, token, _FRAGMENT)


def _ip(packet: Packet, payload: bytes, token: int) -> bytes:
    if packet.version == 4:
        return _ipv4(packet, payload, token, 0)
    if packet.is_icmp and packet.icmp in _LISTENERS:
        return _ipv6(packet, bytes([ICMPV6]) + _ROUTER_ALERT + payload, token, _HOP_BY_HOP)
    return _ipv6(packet, payload, token, packet.protocol)


def _ipv4(packet: Packet, payload: bytes, token: int, fragment: int) -> bytes:
    assert isinstance(packet.source, IPv4Address)
    length, identification = 20 + len(payload), token & 0xFFFF
    addresses = packet.source.packed + packet.target.packed
    head = struct.pack(
        "!BBHHHBBH", 0x45, 0, length, identification, fragment, 64, packet.protocol, 0
    )
    checksum = struct.pack("!H", _checksum(head + addresses))
    return head[:10] + checksum + addresses + payload


def _ipv6(packet: Packet, payload: bytes, token: int, following: int) -> bytes:
    first = 6 << 28 | token & 0xFFFFF
    head = struct.pack("!IHBB", first, len(payload), following, 255)
    return head + packet.source.packed + packet.target.packed + payload


def _transport(packet: Packet, more: bytes = b"") -> bytes:
    body = packet.body + more
    if packet.is_icmp:
        made = _icmp(packet, body)
    elif packet.protocol == TCP:
        made = _tcp(packet, body)
    elif packet.protocol == UDP:
        made = _udp(packet, body)
    elif packet.protocol == SCTP:
        made = _sctp(packet)
    elif packet.protocol == UDPLITE:
        made = _udplite(packet, body)
    elif packet.protocol == DCCP:
        made = _dccp(packet)
    else:
        made = body.ljust(8, b"\0")
    return made


def _tcp(packet: Packet, body: bytes) -> bytes:
    ends = struct.pack("!HH", packet.source_port, packet.target_port)
    numbers = struct.pack("!II", packet.sequence & 0xFFFFFFFF, packet.acknowledged & 0xFFFFFFFF)
    rest = struct.pack("!BBHHH", 5 << 4, int(packet.flags), 64000, 0, 0)
    return _summed(packet, ends + numbers + rest + body, 16)


def _udp(packet: Packet, body: bytes) -> bytes:
    ends = struct.pack("!HH", packet.source_port, packet.target_port)
    return _summed(packet, ends + struct.pack("!HH", 8 + len(body), 0) + body, 6)


def _udplite(packet: Packet, body: bytes) -> bytes:
    """Return a packet whose checksum covers all of it."""
    ends = struct.pack("!HH", packet.source_port, packet.target_port)
    return _summed(packet, ends + struct.pack("!HH", 0, 0) + body, 6)


def _dccp(packet: Packet) -> bytes:
    """Return the request that opens a connection, with a long sequence number."""
    ends = struct.pack("!HH", packet.source_port, packet.target_port)
    return _summed(packet, ends + struct.pack("!BBHBBHII", 5, 0, 0, 1, 0, 0, 1, 1), 6)


def _sctp(packet: Packet) -> bytes:
    """Return the first packet of an association: trackers accept no other."""
    ends = struct.pack("!HHI", packet.source_port, packet.target_port, 0)
    chunk = struct.pack("!BBHIIHHI", 1, 0, 20, 77, 64000, 1, 1, 77)
    return ends + struct.pack("<I", _crc32c(ends + bytes(4) + chunk)) + chunk


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _icmp(packet: Packet, body: bytes) -> bytes:
    head = struct.pack("!BBH", *packet.icmp, 0)
    if packet.about is not None:
        rest = bytes(4) + _ip(packet.about, _transport(packet.about), 1)
    elif packet.claims is not None and packet.icmp in _NEIGHBOURHOOD:
        advertised = packet.icmp == NEIGHBOUR_ADVERTISEMENT
        option = bytes([2 if advertised else 1, 1]) + _mac(packet.source_mac)
        if packet.source == IPv6Address("::"):
            option = b""  # without an address of its own there is no source link-layer option
        rest = struct.pack("!I", 0x20000000 if advertised else 0) + packet.claims.packed + option
    elif packet.version == 6 and packet.icmp == ROUTER_ADVERTISEMENT:
        rest = struct.pack("!BBHII", 64, 0, 1800, 0, 0)
    elif packet.version == 6 and packet.icmp == ROUTER_SOLICITATION:
        rest = bytes(4)
    elif packet.version == 6 and packet.icmp in _LISTENERS:
        rest = bytes(4) if packet.icmp == MLD2_REPORT else bytes(4) + packet.target.packed
    else:
        rest = struct.pack("!HH", packet.identifier, 1) + body
    return _summed(packet, head + rest, 2)


def _summed(packet: Packet, segment: bytes, location: int) -> bytes:
    pseudo = b""
    if packet.protocol != ICMP:
        ends = packet.source.packed + packet.target.packed
        pseudo = ends + struct.pack("!II", len(segment), packet.protocol)
    checksum = _checksum(pseudo + segment) or 0xFFFF
    if packet.spoilt:
        checksum ^= 0x5555
    return segment[:location] + struct.pack("!H", checksum) + segment[location + 2 :]


def _checksum(data: bytes) -> int:
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF
