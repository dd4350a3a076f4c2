"""A raw socket on a device, by which suites send and receive."""

from __future__ import annotations

import socket
from collections.abc import Iterator

EVERYTHING = 3
_OUTGOING = 4
SO_RCVBUFFORCE = 33
_LARGEST = 4096


def open_wire(device: str, buffer_size: int) -> socket.socket:
    """Open a socket that receives all that *device* sends and receives, with *room* bytes."""
    wire = socket.socket(
        socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(EVERYTHING)
    )
    wire.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, buffer_size)
    wire.bind((device, EVERYTHING))
    return wire


def drain(wire: socket.socket) -> Iterator[bytes]:
    """Yield received packets without those sent from here; endless while others send."""
    while True:
        try:
            packet, sender = wire.recvfrom(_LARGEST)
        except (BlockingIOError, OSError):
            return
        if sender[2] != _OUTGOING:
            yield packet
