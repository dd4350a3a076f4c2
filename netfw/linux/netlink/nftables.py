"""nf_tables generation: a number of each namespace that every change of its rules increments."""

from __future__ import annotations

import struct

from netfw.linux.netlink.messages import parse_attributes
from netfw.linux.netlink.raw_socket import NETLINK_NETFILTER, RawNetlinkSocket

_GENERATION = struct.Struct(">I")
_GENERIC = bytes(4)
"""nfgenmsg: any family."""
_SUBSYSTEM = 10 << 8
NEW_GENERATION, _GET_GENERATION = _SUBSYSTEM | 15, _SUBSYSTEM | 16
_ID_ATTRIBUTE = 1
GENERATION_GROUP = 7
"""The multicast group that has a message of the kind NEW_GENERATION for each change."""
FIRST_GENERATION = 1
"""The generation of a new namespace: none of its rules was ever changed."""
_TIMEOUT = 10.0


def read_generation() -> int | None:
    """Return the generation in the namespace of the calling thread.

    None: the kernel does not say.  What iptables-legacy changes does not change it.
    """
    try:
        with RawNetlinkSocket(NETLINK_NETFILTER, timeout=_TIMEOUT) as netlink:
            reply = next(netlink.replies({netlink.request(_GET_GENERATION, _GENERIC)}))
    except OSError:
        return None
    if reply.kind != NEW_GENERATION:
        return None
    found = parse_attributes(reply.body[len(_GENERIC) :]).get(_ID_ATTRIBUTE)
    return None if found is None else int(_GENERATION.unpack(found)[0])
