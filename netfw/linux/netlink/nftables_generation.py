"""What nf_tables says of a namespace: its generation, and the flags of a table.

Every change of the rules increments the generation.
"""

from __future__ import annotations

import struct

from netfw.linux.netlink.messages import parse_attributes, render_attribute
from netfw.linux.netlink.raw_socket import NETLINK_NETFILTER, RawNetlinkSocket

_NUMBER = struct.Struct(">I")
_GENERIC = bytes(4)
"""nfgenmsg: any family."""
_FAMILIES = {"inet": 1, "ip": 2, "netdev": 5, "bridge": 7, "ip6": 10}
_SUBSYSTEM = 10 << 8
_NEW_TABLE, _GET_TABLE = _SUBSYSTEM | 0, _SUBSYSTEM | 1
_NAME_ATTRIBUTE, _FLAGS_ATTRIBUTE = 1, 2
_DORMANT = 1
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
    return None if found is None else int(_NUMBER.unpack(found)[0])


def is_dormant(family: str, table: str) -> bool:
    """Return whether a table is in the namespace of the calling thread, and sees no packet.

    :raises OSError: the kernel does not say.
    """
    body = bytes((_FAMILIES[family], 0, 0, 0))
    name = render_attribute(_NAME_ATTRIBUTE, table.encode() + b"\0")
    with RawNetlinkSocket(NETLINK_NETFILTER, timeout=_TIMEOUT) as netlink:
        reply = next(netlink.replies({netlink.request(_GET_TABLE, body + name)}))
    if reply.kind != _NEW_TABLE:
        return False
    flags = parse_attributes(reply.body[len(body) :]).get(_FLAGS_ATTRIBUTE)
    return flags is not None and bool(_NUMBER.unpack(flags)[0] & _DORMANT)
