"""Names of tables, chains, sets and maps.  Pure.

A name has the whole id of what it belongs to, so that it can be parsed back.

=======================================  ===========================================================
chain                                    contents
=======================================  ===========================================================
``frames-<port>``                        frames that a port may send: MAC, ARP, source addresses
``out4-<port>``, ``out6-<port>``         packets from a port
``in4-<port>``, ``in6-<port>``           packets to a port
``egress4-<group>``, ``ingress4-...``    rules of a group
``egress-answers4-<group>``, ...         answers to them: the same rules with both ends exchanged
``from4-group-<group>``, ``to4-...``     packets from and to the members of a group
``from4-addresses-<group>``, ...         those of an address group
``zone-<network>``                       (inet) assigns the conntrack zone of a network
=======================================  ===========================================================
"""

from __future__ import annotations

import re
from uuid import UUID

from attrs import frozen

from netfw.drivers.values.keys import AddressGroupKey, GroupKey
from netfw.linux.bridge_firewall.remote_groups import Remote
from netfw.linux.nftables.values import NftTable, ObjectKey
from netfw.model.values.ids import NetworkId

OWNER, HYBRID_OWNER = "netfw", "netfw_hybrid"
"""Tables of the two drivers: those of one can be removed beside the other's."""

OUT, IN, FRAMES = "out", "in", "frames"
EGRESS, INGRESS = "egress", "ingress"
FROM, TO = "from", "to"
ANSWERS = "-answers"
FAMILIES = (4, 6)

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_CHAIN = re.compile(rf"(out|in|(?:egress|ingress)(?:-answers)?)([46])-({_UUID})")
_FRAMES = re.compile(rf"frames-({_UUID})")
_REMOTE = re.compile(rf"(from|to)([46])-(group|addresses)-({_UUID})")
_SET = re.compile(rf"(group|addresses)([46])-({_UUID})(?:/(\d+))?")
_MACS = re.compile(rf"macs([46])-({_UUID})")
_ZONE = re.compile(rf"zone-({_UUID})")
_KINDS: dict[str, type[GroupKey] | type[AddressGroupKey]] = {
    "group": GroupKey,
    "addresses": AddressGroupKey,
}


@frozen
class Tables:
    """The two tables of a driver."""

    owner: str

    @property
    def bridge(self) -> NftTable:
        """Table that filters: it sees the ports of bridges."""
        return NftTable("bridge", self.owner)

    @property
    def inet(self) -> NftTable:
        """Table that tracks connections: the bridge family of many kernels cannot."""
        return NftTable("inet", self.owner)

    def filter(self, name: str) -> ObjectKey:
        return ObjectKey(self.bridge, name)

    def track(self, name: str) -> ObjectKey:
        return ObjectKey(self.inet, name)


def chain_name(kind: str, family: int, id: UUID) -> str:
    """Return the name of a chain of a port or group."""
    return f"{kind}{family}-{id}"


def frames_name(id: UUID) -> str:
    """Return the name of the chain of frames that a port may send."""
    return f"{FRAMES}-{id}"


def remote_chain(kind: str, remote: Remote) -> str:
    """Return the name of the chain of packets from, or to, members."""
    return f"{kind}{remote[1]}-{_word(remote)}-{remote[0].group}"


def set_name(remote: Remote, length: int) -> str:
    """Return the name of the set of members with prefixes of *length*."""
    group, family = remote
    suffix = "" if length == max_length(family) else f"/{length}"
    return f"{_word(remote)}{family}-{group.group}{suffix}"


def macs_name(remote: Remote) -> str:
    """Return the name of the set of members that are matched by their MAC address."""
    return f"macs{remote[1]}-{remote[0].group}"


def zone_name(network: NetworkId) -> str:
    return f"zone-{network}"


def max_length(family: int) -> int:
    """Return the prefix length of a single address."""
    return 32 if family == 4 else 128


def read_chain(name: str) -> tuple[str, int, UUID] | None:
    """Parse a name of :func:`chain_name`."""
    found = _CHAIN.fullmatch(name)
    return None if found is None else (found[1], int(found[2]), UUID(found[3]))


def read_frames(name: str) -> UUID | None:
    """Parse a name of :func:`frames_name`."""
    found = _FRAMES.fullmatch(name)
    return None if found is None else UUID(found[1])


def read_remote(name: str) -> Remote | None:
    """Parse a name of :func:`remote_chain`."""
    found = _REMOTE.fullmatch(name)
    return None if found is None else (_KINDS[found[3]](UUID(found[4])), int(found[2]))  # type: ignore[arg-type]


def read_set(name: str) -> tuple[Remote, int] | None:
    """Parse a name of :func:`set_name`: the group and the prefix length."""
    found = _SET.fullmatch(name)
    if found is None:
        return None
    family = int(found[2])
    length = max_length(family) if found[4] is None else int(found[4])
    remote: Remote = (_KINDS[found[1]](UUID(found[3])), family)  # type: ignore[arg-type]
    is_ours = length <= max_length(family) and set_name(remote, length) == name
    return (remote, length) if is_ours else None


def read_macs(name: str) -> Remote | None:
    """Parse a name of :func:`macs_name`."""
    found = _MACS.fullmatch(name)
    return None if found is None else (GroupKey(UUID(found[2])), int(found[1]))  # type: ignore[arg-type]


def read_zone_name(name: str) -> NetworkId | None:
    """Parse a name of :func:`zone_name`."""
    found = _ZONE.fullmatch(name)
    return None if found is None else NetworkId(UUID(found[1]))


def _word(remote: Remote) -> str:
    return "group" if isinstance(remote[0], GroupKey) else "addresses"
