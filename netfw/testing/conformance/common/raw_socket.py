"""A raw socket on a device: what suites speak and listen by."""

from __future__ import annotations

import socket
from collections.abc import Iterator

_EVERYTHING = 3
_OUTGOING = 4
_SO_RCVBUFFORCE = 33
_LARGEST = 4096


def open_wire(device: str, room: int) -> socket.socket:
    """A socket that hears all that *device* sends and receives, and has *room* bytes for it."""
    wire = socket.socket(
        socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(_EVERYTHING)
    )
    wire.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, room)
    wire.bind((device, _EVERYTHING))
    return wire


def drain(wire: socket.socket) -> Iterator[bytes]:
    """What has arrived, leaving out what was sent from here; it may never end, as others speak."""
    while True:
        try:
            packet, sender = wire.recvfrom(_LARGEST)
        except (BlockingIOError, OSError):
            return
        if sender[2] != _OUTGOING:
            yield packet
