"""Frames as the packet log renders them: addresses, protocol, ports.  Pure."""

from __future__ import annotations

from ipaddress import ip_address
from struct import Struct, error
from typing import Final

from attrs import evolve, frozen

from netfw.model.values.address import IpAddress
from netfw.model.values.protocol import ICMP, ICMPV6, PORTED

ARP_TYPE, IPV4_TYPE, IPV6_TYPE = 0x0806, 0x0800, 0x86DD
_VLAN: Final = 0x8100
_ETHERNET, _WORD = Struct("!6s6sH"), Struct("!H")
_ARP: Final = Struct("!8xH4x2x4s6x4s")
_IPV4, _IPV6 = Struct("!B5xH1xB2x4s4s"), Struct("!6xB1x16s16s")
_PORTS, _ICMP = Struct("!HH"), Struct("!BB")
_SKIPPED: Final = {0, 43, 60}
"""Extension headers of IPv6 with a length: hop-by-hop, routing, destination options."""
_FRAGMENT: Final = 44
_MAX_HEADERS: Final = 8
_OFFSET: Final = 0x1FFF


@frozen(kw_only=True)
class LoggedFrame:
    """The parts of a frame that are logged; what the frame lacks is ``None``."""

    eth_src: str
    eth_dst: str
    eth_type: int
    src: IpAddress | None = None
    dst: IpAddress | None = None
    protocol: int | None = None
    first: int | None = None
    """The source port, or the ICMP type."""
    second: int | None = None
    """The destination port, or the ICMP code."""

    @property
    def version(self) -> int | None:
        """4 or 6; ``None``: not IP."""
        return {IPV4_TYPE: 4, IPV6_TYPE: 6}.get(self.eth_type)

    @property
    def has_ports(self) -> bool:
        """The protocol has ports, and they are known: later fragments have none."""
        return self.protocol in PORTED and self.second is not None


def parse_frame(data: bytes) -> LoggedFrame | None:
    """Return the parts of a frame as far as it has them; ``None``: it is too short for a frame."""
    try:
        dst, src, eth_type = _ETHERNET.unpack_from(data)
        at = _ETHERNET.size
        if eth_type == _VLAN:
            (eth_type,) = _WORD.unpack_from(data, at + 2)
            at += 4
    except error:
        return None
    frame = LoggedFrame(eth_src=src.hex(":"), eth_dst=dst.hex(":"), eth_type=eth_type)
    readers = {ARP_TYPE: _read_arp, IPV4_TYPE: _read_ipv4, IPV6_TYPE: _read_ipv6}
    reader = readers.get(eth_type)
    try:
        return frame if reader is None else reader(frame, data, at)
    except error:
        return frame


def _read_arp(frame: LoggedFrame, data: bytes, at: int) -> LoggedFrame:
    _, sender, target = _ARP.unpack_from(data, at)
    return evolve(frame, src=ip_address(sender), dst=ip_address(target))


def _read_ipv4(frame: LoggedFrame, data: bytes, at: int) -> LoggedFrame:
    head, fragment, protocol, src, dst = _IPV4.unpack_from(data, at)
    found = evolve(frame, src=ip_address(src), dst=ip_address(dst), protocol=protocol)
    return found if fragment & _OFFSET else _read_upper(found, data, at + (head & 15) * 4)


def _read_ipv6(frame: LoggedFrame, data: bytes, at: int) -> LoggedFrame:
    following, src, dst = _IPV6.unpack_from(data, at)
    found = evolve(frame, src=ip_address(src), dst=ip_address(dst), protocol=following)
    at += _IPV6.size
    for _ in range(_MAX_HEADERS):
        if following == _FRAGMENT and at + 8 <= len(data):
            (offset,) = _WORD.unpack_from(data, at + 2)
            following, at = data[at], at + 8
            if offset >> 3:
                return evolve(found, protocol=following)
        elif following in _SKIPPED and at + 2 <= len(data):
            following, at = data[at], at + (data[at + 1] + 1) * 8
        else:
            break
    return _read_upper(evolve(found, protocol=following), data, at)


def _read_upper(frame: LoggedFrame, data: bytes, at: int) -> LoggedFrame:
    """Read the ports or the ICMP type, if the data has them."""
    layout = _PORTS if frame.protocol in PORTED else None
    if frame.protocol in (ICMP, ICMPV6):
        layout = _ICMP
    if layout is None or at + layout.size > len(data):
        return frame
    first, second = layout.unpack_from(data, at)
    return evolve(frame, first=first, second=second)
