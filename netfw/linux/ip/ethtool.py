"""Checksum offload by ioctl.

A userspace switch forwards packets as it receives them: checksums that a veth leaves to hardware
are then never filled in, and TCP and UDP fail.  Devices of instances have it switched off.
"""

from __future__ import annotations

import array
import errno
import fcntl
import socket
import struct

_SIOCETHTOOL = 0x8946
_SET_TX = 0x17
_REQUEST = struct.Struct("16sP16x")


def set_checksum_offload(device: str, on: bool) -> None:
    """Switch checksum offload, in the calling thread's namespace; a device without it has it off.

    :raises OSError: the kernel refused.
    """
    block = array.array("I", [_SET_TX, int(on)])
    address, _ = block.buffer_info()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        try:
            fcntl.ioctl(control, _SIOCETHTOOL, _REQUEST.pack(device.encode(), address))
        except OSError as error:
            if on or error.errno != errno.EOPNOTSUPP:
                raise
