"""Frames of the test ports of the switch suite, as bytes.  Pure."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address

from netfw.model.values.address import IpAddress, Mac

BROADCAST = b"\xff" * 6
_EXPERIMENTAL = 0x88B5
_VLAN = 0x8100
_ARP = 0x0806
_IPV4, _IPV6 = 0x0800, 0x86DD
_UDP, _ICMPV6 = 17, 58
_SOLICIT, _ADVERTISE = 135, 136
_PAYLOAD = struct.Struct("!HIBI")
_ALL_NODES, _ALL_MLD_ROUTERS = IPv6Address("ff02::1"), IPv6Address("ff02::16")
_GROUP_REPORT, _LEFT = 143, 3


def raw(mac: Mac) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def frame(to: bytes, source: bytes, payload: bytes, vlan: int | None = None) -> bytes:
    """Return an experimental frame, tagged or not."""
    tag = b"" if vlan is None else struct.pack("!HH", _VLAN, vlan)
    return (to + source + tag + struct.pack("!H", _EXPERIMENTAL) + payload).ljust(60, b"\0")


def make_payload(token: bytes, sender: int, number: int, kind: int, round_: int) -> bytes:
    """Return the payload of a test port: its number, and the sequence number of the frame."""
    return token + _PAYLOAD.pack(sender, number, kind, round_)


def parse_payload(token: bytes, packet: bytes) -> tuple[int, int, int, int] | None:
    """Parse the payload in *packet*, in any encapsulation; ``None``: not from a test port."""
    at = packet.find(token)
    if at < 0 or len(packet) < at + len(token) + _PAYLOAD.size:
        return None
    sender, number, kind, round_ = _PAYLOAD.unpack_from(packet, at + len(token))
    return sender, number, kind, round_


def question(mac: Mac, own: IpAddress, wanted: IpAddress) -> bytes:
    """Return the ARP request or neighbour solicitation for *wanted*."""
    if isinstance(wanted, IPv4Address):
        return _arp(1, raw(mac), own, b"\0" * 6, wanted)
    group = IPv6Address(int(IPv6Address("ff02::1:ff00:0")) | (int(wanted) & 0xFFFFFF))
    to = b"\x33\x33" + group.packed[12:]
    body = struct.pack("!BBHI", _SOLICIT, 0, 0, 0) + wanted.packed + b"\x01\x01" + raw(mac)
    return _icmpv6(to, raw(mac), IPv6Address(int(own)), group, body)


def announcement(mac: Mac, address: IpAddress) -> bytes:
    """Return the unsolicited broadcast announcement that *address* is at *mac*."""
    if isinstance(address, IPv4Address):
        return _arp(2, raw(mac), address, BROADCAST, address)
    body = struct.pack("!BBHI", _ADVERTISE, 0, 0, 0x20000000) + address.packed
    to = b"\x33\x33\x00\x00\x00\x01"
    return _icmpv6(to, raw(mac), address, _ALL_NODES, body + b"\x02\x01" + raw(mac))


def group_report(mac: Mac, group: IPv6Address) -> bytes:
    """Return the MLDv2 report of a host without addresses that it has left *group*."""
    record = struct.pack("!BBH", _LEFT, 0, 0) + group.packed
    body = struct.pack("!BBHHH", _GROUP_REPORT, 0, 0, 0, 1) + record
    source, to = IPv6Address(0), _ALL_MLD_ROUTERS
    body = body[:2] + struct.pack("!H", _icmpv6_checksum(source, to, body)) + body[4:]
    alert = bytes([_ICMPV6, 0, 5, 2, 0, 0, 1, 0])
    header = struct.pack("!IHBB", 6 << 28, len(alert + body), 0, 1) + source.packed + to.packed
    multicast = b"\x33\x33" + to.packed[12:]
    return multicast + raw(mac) + struct.pack("!H", _IPV6) + header + alert + body


def udp_packet(to: Mac, source: Mac, own: IpAddress, target: IpAddress, payload: bytes) -> bytes:
    """Return a UDP packet without a checksum, which no switch reads."""
    body = struct.pack("!HHHH", 4000, 4000, 8 + len(payload), 0) + payload
    if isinstance(target, IPv4Address):
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 63, _UDP, 0)
        addresses = own.packed + target.packed
        head = head[:10] + struct.pack("!H", _checksum(head + addresses)) + addresses
        return (raw(to) + raw(source) + struct.pack("!H", _IPV4) + head + body).ljust(60, b"\0")
    head = struct.pack("!IHBB", 6 << 28, len(body), _UDP, 63) + own.packed + target.packed
    return raw(to) + raw(source) + struct.pack("!H", _IPV6) + head + body


def is_question(packet: bytes, wanted: IpAddress) -> bool:
    """Return whether *packet* requests *wanted*."""
    kind = int.from_bytes(packet[12:14])
    if isinstance(wanted, IPv4Address):
        return kind == _ARP and packet[20:22] == b"\0\1" and packet[38:42] == wanted.packed
    solicits = kind == _IPV6 and packet[20] == _ICMPV6 and packet[54] == _SOLICIT
    return solicits and packet[62:78] == wanted.packed


def asker(packet: bytes) -> IpAddress | None:
    """Return the address of the sender of a request; ``None``: it has none."""
    if int.from_bytes(packet[12:14]) == _ARP:
        found: IpAddress = IPv4Address(packet[28:32])
    else:
        found = IPv6Address(packet[22:38])
    return None if found.is_unspecified else found


def reply(mac: Mac, own: IpAddress, request: bytes) -> bytes:
    """Return the answer of *own* at *mac* to *request*, as a kernel sends it."""
    if isinstance(own, IPv4Address):
        asked = _arp(2, raw(mac), own, request[22:28], IPv4Address(request[28:32]))
        return request[6:12] + asked[6:]
    source = asker(request)
    flags = 0x20000000 if source is None else 0x60000000
    body = struct.pack("!BBHI", _ADVERTISE, 0, 0, flags) + own.packed + b"\x02\x01" + raw(mac)
    to = b"\x33\x33\x00\x00\x00\x01" if source is None else request[6:12]
    return _icmpv6(to, raw(mac), own, IPv6Address(int(source or _ALL_NODES)), body)


def answer(packet: bytes, wanted: IpAddress) -> Mac | None:
    """Return the MAC of *wanted* by *packet*, if it answers that."""
    kind = int.from_bytes(packet[12:14])
    if kind == _ARP and packet[20:22] == b"\x00\x02" and packet[28:32] == wanted.packed:
        return Mac(packet[22:28].hex(":"))
    if kind == _IPV6 and packet[20] == _ICMPV6 and packet[54] == _ADVERTISE:
        options = packet[78:86]
        if packet[62:78] == wanted.packed and options[:2] == b"\x02\x01":
            return Mac(options[2:8].hex(":"))
    return None


def _arp(operation: int, mac: bytes, own: IpAddress, target: bytes, wanted: IpAddress) -> bytes:
    head = BROADCAST + mac + struct.pack("!HHHBBH", _ARP, 1, 0x0800, 6, 4, operation)
    return (head + mac + own.packed + target.ljust(6, b"\0") + wanted.packed).ljust(60, b"\0")


def _icmpv6(to: bytes, mac: bytes, source: IPv6Address, target: IPv6Address, body: bytes) -> bytes:
    checksum = _icmpv6_checksum(source, target, body)
    body = body[:2] + struct.pack("!H", checksum) + body[4:]
    header = struct.pack("!IHBB", 6 << 28, len(body), _ICMPV6, 255) + source.packed + target.packed
    return to + mac + struct.pack("!H", _IPV6) + header + body


def _icmpv6_checksum(source: IPv6Address, target: IPv6Address, body: bytes) -> int:
    pseudo = source.packed + target.packed + struct.pack("!II", len(body), _ICMPV6)
    return _checksum(pseudo + body)


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF
