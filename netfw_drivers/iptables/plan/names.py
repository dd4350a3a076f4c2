"""Names of chains and sets.  Pure.

A name has the whole id (16 bytes are 22 characters of base64url), so that names are unique and can
be parsed back: no hash, no truncation.

========  ==================================================================
chain     contents
========  ==================================================================
``o..``   packets from a port
``s..``   source addresses of a port
``i..``   packets to a port
``e..``   egress rules of a group
``g..``   ingress rules of a group
``a..``   answers to ingress of a group
``b..``   answers to egress of a group
``m..``   members of a group known by their MAC address alone, as senders
``d..``   the same, as receivers
``p..``   (ebtables) the frames that a port may send
========  ==================================================================
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from uuid import UUID

from netfw.drivers.values.keys import AddressGroupKey, GroupKey
from netfw.errors import InvalidInput

OWNER, HYBRID_OWNER = "nfw", "nfh"
"""Prefixes of the two drivers: the chains of one can be removed beside the other's."""
ID_LENGTH = 22

SENT, SOURCES, RECEIVED = "o", "s", "i"
EGRESS, INGRESS, ANSWERS_OUT, ANSWERS_IN = "e", "g", "a", "b"
SENDING_MACS, TAKING_MACS = "m", "d"
FRAMES = "p"

BUCKET_LENGTH = 4

_BUCKET = re.compile(r"[A-Za-z0-9_.-]+")
_SETS: dict[str, type[GroupKey] | type[AddressGroupKey]] = {"G": GroupKey, "A": AddressGroupKey}


def short(id: UUID) -> str:
    """Encode an id in 22 characters.

    :raises InvalidInput: it is not an id.
    """
    if not isinstance(id, UUID):
        raise InvalidInput({"id": f"{id!r} is not an id"})
    return urlsafe_b64encode(id.bytes)[:ID_LENGTH].decode()


def long(text: str) -> UUID | None:
    """Decode an id of :func:`short`; ``None``: the text is not one."""
    if len(text) != ID_LENGTH:
        return None
    try:
        id = UUID(bytes=urlsafe_b64decode(f"{text}=="))
    except (ValueError, Error):
        return None
    return id if short(id) == text else None


def id_in(kind: str, name: str) -> UUID | None:
    """Return the id in the name of a chain of that *kind*."""
    return long(name[1:]) if name[:1] == kind else None


def set_name(group: GroupKey | AddressGroupKey, family: int) -> str:
    """Return the name of the member set of *group*, IPv4 or IPv6; without the owner."""
    kind = "G" if isinstance(group, GroupKey) else "A"
    return f"{kind}{family}{short(group.group)}"


def read_set_name(name: str) -> tuple[GroupKey | AddressGroupKey, int] | None:
    """Parse a name of :func:`set_name`."""
    id, key, family = long(name[2:]), _SETS.get(name[:1]), name[1:2]
    if id is None or key is None or family not in ("4", "6"):
        return None
    return key(id), int(family)  # type: ignore[arg-type]


def bucket_of(device: str) -> str:
    """Return the prefix of a device's name that is matched first; empty: none.

    A packet is matched against the prefixes of device names first, so that one more port changes a
    small chain, and no packet is compared with all devices.
    """
    head = device[:BUCKET_LENGTH]
    return head if _BUCKET.fullmatch(head) else ""


def bucket_chain(kind: str, bucket: str) -> str:
    """Return the name of the chain that dispatches by the devices of a bucket."""
    return f"{kind}.{bucket}" if bucket else f"{kind}-rest"
