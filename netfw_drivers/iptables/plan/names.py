"""What the firewall calls its chains and sets.  Pure.

A name holds the whole id (16 bytes are 22 characters of base64url), so that two ids never meet in
one name and every name can be read back: no hash, nothing cut off.

========  ==================================================================
chain     what it is about
========  ==================================================================
``o..``   what a port sends
``s..``   what a port may send as
``i..``   what is sent to a port
``e..``   what a group lets out
``g..``   what a group lets in
``a..``   answers to what a group lets in
``b..``   answers to what a group lets out
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

from netfw.drivers.keys import AddressGroupKey, GroupKey
from netfw.errors import InvalidInput

OWNER, HYBRID_OWNER = "nfw", "nfh"
"""What chains and sets of the two drivers begin with: one can be cleared away beside the other."""
ID_LENGTH = 22

SENT, SOURCES, RECEIVED = "o", "s", "i"
EGRESS, INGRESS, ANSWERS_OUT, ANSWERS_IN = "e", "g", "a", "b"
SENDING_MACS, TAKING_MACS = "m", "d"
FRAMES = "p"

BUCKET_LENGTH = 4

_DEVICE = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.@-]{0,14}")
_BUCKET = re.compile(r"[A-Za-z0-9_.-]+")
_SETS: dict[str, type[GroupKey] | type[AddressGroupKey]] = {"G": GroupKey, "A": AddressGroupKey}


def short(id: UUID) -> str:
    """The id in 22 characters.

    :raises InvalidInput: it is no id.
    """
    if not isinstance(id, UUID):
        raise InvalidInput({"id": f"{id!r} is not an id"})
    return urlsafe_b64encode(id.bytes)[:ID_LENGTH].decode()


def long(text: str) -> UUID | None:
    """The id that :func:`short` wrote so; None when it wrote no such thing."""
    if len(text) != ID_LENGTH:
        return None
    try:
        id = UUID(bytes=urlsafe_b64decode(f"{text}=="))
    except (ValueError, Error):
        return None
    return id if short(id) == text else None


def id_in(kind: str, name: str) -> UUID | None:
    """The id in the name of a chain of that *kind*."""
    return long(name[1:]) if name[:1] == kind else None


def set_name(group: GroupKey | AddressGroupKey, family: int) -> str:
    """The set of the members of *group*, IPv4 or IPv6; without the owner."""
    kind = "G" if isinstance(group, GroupKey) else "A"
    return f"{kind}{family}{short(group.group)}"


def read_set_name(name: str) -> tuple[GroupKey | AddressGroupKey, int] | None:
    """What :func:`set_name` wrote so."""
    id, key, family = long(name[2:]), _SETS.get(name[:1]), name[1:2]
    if id is None or key is None or family not in ("4", "6"):
        return None
    return key(id), int(family)  # type: ignore[arg-type]


def check_device(device: str) -> str:
    """*device*, if it can be the name of one.

    :raises InvalidInput: iptables could take it for something else.
    """
    if not _DEVICE.fullmatch(str(device)):
        raise InvalidInput({"device": f"{device!r} is not the name of a device"})
    return device


def bucket_of(device: str) -> str:
    """By which beginning of its name a device is looked for; empty: by none.

    Packets find the chain of their port by the beginning of its device's name first, so that one
    port more changes a small chain, and no packet is compared with all of them.
    """
    head = device[:BUCKET_LENGTH]
    return head if _BUCKET.fullmatch(head) else ""


def bucket_chain(kind: str, bucket: str) -> str:
    """The chain that tells the devices of a bucket apart."""
    return f"{kind}.{bucket}" if bucket else f"{kind}-rest"
