"""What an instance hears, frame by frame."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from attrs import frozen

from netfw.testing.lab.instance import Instance
from netfw.testing.lab.namespaces import NamespaceContext

_EVERYTHING = 0x0003
_IPV4, _ARP, _IPV6, _VLAN = 0x0800, 0x0806, 0x86DD, 0x8100
_ICMP, _ICMPV6, _HOP_BY_HOP = 1, 58, 0
_ADVERTISEMENT, _SOLICITATION, _MLD2_REPORT = 134, 135, 143
_UDP, _VXLAN_PORT = 17, 4789
_VXLAN_OVERHEAD = 14 + 20 + 8 + 8
"""Bytes of Ethernet, IPv4, UDP and VXLAN before the frame in a tunnel."""


@frozen
class Frame:
    """A frame as it arrived."""

    content: bytes

    @property
    def source(self) -> str:
        return self.content[6:12].hex(":")

    @property
    def is_ipv4(self) -> bool:
        return int.from_bytes(self.content[12:14]) in (_ARP, _IPV4)

    @property
    def is_echo_reply(self) -> bool:
        """Whether it answers a ping of IPv4."""
        kind, protocol = int.from_bytes(self.content[12:14]), self.content[23]
        return kind == _IPV4 and protocol == _ICMP and self.content[34] == 0

    @property
    def is_router_advertisement(self) -> bool:
        kind, protocol = int.from_bytes(self.content[12:14]), self.content[20]
        return kind == _IPV6 and protocol == _ICMPV6 and self.content[54] == _ADVERTISEMENT

    @property
    def inner(self) -> Frame | None:
        """The frame that a VXLAN tunnel on IPv4 carries; ``None``: it is no such packet."""
        kind, protocol = int.from_bytes(self.content[12:14]), self.content[23]
        if (kind, protocol) != (_IPV4, _UDP):
            return None
        is_vxlan = int.from_bytes(self.content[36:38]) == _VXLAN_PORT
        return Frame(self.content[_VXLAN_OVERHEAD:]) if is_vxlan else None

    @property
    def is_mld_report(self) -> bool:
        """Whether it reports multicast groups of IPv6 (MLDv2)."""
        kind, first = int.from_bytes(self.content[12:14]), self.content[20]
        return kind == _IPV6 and first == _HOP_BY_HOP and self.content[62] == _MLD2_REPORT

    @property
    def is_question(self) -> bool:
        """Whether it asks everybody for somebody's MAC address."""
        if not self.content[0] & 1:
            return False
        kind = int.from_bytes(self.content[12:14])
        if kind == _ARP:
            return self.content[20:22] == b"\x00\x01"
        return kind == _IPV6 and self.content[20] == _ICMPV6 and self.content[54] == _SOLICITATION


class Capture:
    """The frames that a device receives from now on."""

    def __init__(self, place: NamespaceContext, device: str) -> None:
        self._socket = place.call(_listen, device)

    def received(self) -> list[Frame]:
        """Return the frames received since the previous call."""
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                content, address = self._socket.recvfrom(65536)
                if address[2] != socket.PACKET_OUTGOING:
                    found.append(Frame(content))
        return found

    def close(self) -> None:
        self._socket.close()


class TunnelCapture(Capture):
    """The frames in VXLAN tunnels that a device receives from now on."""

    def received(self) -> list[Frame]:
        inner = (frame.inner for frame in super().received())
        return [frame for frame in inner if frame is not None]


@contextlib.contextmanager
def listening(*instances: Instance) -> Iterator[list[Capture]]:
    """Capture in all of these instances."""
    captures = [Capture(instance.namespaces, instance.device or "eth0") for instance in instances]
    try:
        yield captures
    finally:
        for each in captures:
            each.close()


def _listen(device: str) -> socket.socket:
    listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERYTHING))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    listener.bind((device, 0))
    listener.setblocking(False)
    return listener


def shout(place: NamespaceContext, device: str, *, source: bytes, vlan: int | None) -> None:
    """Send a broadcast frame of nobody's protocol."""
    tag = b"" if vlan is None else _VLAN.to_bytes(2) + vlan.to_bytes(2)
    frame = (b"\xff" * 6 + source + tag + b"\x88\xb5" + b"netfw").ljust(64, b"\0")

    def send() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as mouth:
            mouth.bind((device, 0))
            mouth.send(frame)

    place.call(send)
