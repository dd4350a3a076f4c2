"""A raw socket on a device for the frames of one VLAN tag, or for those without any.

Kernels without VLAN devices have it, too.  The kernel strips the outer tag of a received frame, and
says it in auxiliary data.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

from netfw.testing.conformance.common.raw_socket import EVERYTHING, SO_RCVBUFFORCE

_SOL_PACKET = 263
_PACKET_AUXDATA = 8
_AUXDATA = struct.Struct("=IIIHHHH")
_TAGGED = 0x10
"""The bit of the auxiliary data that says that there was a tag."""
_TAG_TYPES = (0x8100, 0x88A8)
_VLAN_MASK = 0xFFF


class VlanSocket(socket.socket):
    """Sends frames under a tag, and receives those under it, without the tag."""

    vlan: int | None

    def send(self, data: Any, flags: int = 0) -> int:
        packet = bytes(data)
        if self.vlan is not None:
            packet = packet[:12] + struct.pack("!HH", _TAG_TYPES[0], self.vlan) + packet[12:]
        return super().send(packet, flags)

    def recvfrom(self, bufsize: int, flags: int = 0) -> tuple[bytes, Any]:
        while True:
            packet, data, _, sender = self.recvmsg(bufsize, socket.CMSG_SPACE(_AUXDATA.size), flags)
            tag, rest = _stripped_tag(data), packet
            if tag is None and struct.unpack_from("!H", packet, 12)[0] in _TAG_TYPES:
                tag = struct.unpack_from("!H", packet, 14)[0] & _VLAN_MASK
                rest = packet[:12] + packet[16:]
            if tag == self.vlan:
                return rest, sender


def open_vlan(device: str, buffer_size: int, vlan: int | None) -> VlanSocket:
    """Open a socket for the frames that *device* receives under *vlan*; ``None``: without a tag."""
    wire = VlanSocket(
        socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(EVERYTHING)
    )
    wire.vlan = vlan
    wire.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, buffer_size)
    wire.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
    wire.bind((device, EVERYTHING))
    return wire


def _stripped_tag(data: list[tuple[int, int, bytes]]) -> int | None:
    """Return the tag that the kernel stripped."""
    for level, kind, content in data:
        if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
            status, *_, tag, _ = _AUXDATA.unpack(content)
            if status & _TAGGED:
                return int(tag) & _VLAN_MASK
    return None
