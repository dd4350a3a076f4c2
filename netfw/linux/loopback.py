"""The loopback of a new namespace is down until somebody raises it."""

from __future__ import annotations

import fcntl
import socket
import struct

_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
_REQUEST = struct.Struct("16sH22x")


def raise_loopback() -> None:
    """Set ``lo`` up in the namespace of the calling thread.

    :raises OSError: the kernel refused.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        answer = fcntl.ioctl(control, _SIOCGIFFLAGS, _REQUEST.pack(b"lo", 0))
        name, flags = _REQUEST.unpack(answer)
        fcntl.ioctl(control, _SIOCSIFFLAGS, _REQUEST.pack(name, flags | _IFF_UP))
