"""Sets of addresses as values, and the syntax that ipset has for their members.  Pure."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from attrs import field, frozen

from netfw.errors import InvalidInput
from netfw.model.values.address import IpAddress, IpNetwork, unscoped

NAME_LENGTH = 31
MIN_CAPACITY = 65536
"""Capacity of a set that does not need more; the default of ipset."""

_OWNER = re.compile(r"[A-Za-z0-9_]{1,16}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
_PROTOCOLS = frozenset({"tcp", "udp", "sctp", "udplite"})


class SetType(enum.Enum):
    """Type of the members of a set."""

    ADDRESS = "hash:ip"
    NETWORK = "hash:net"
    ADDRESS_PORT = "hash:ip,port"
    NETWORK_PORT = "hash:net,port"

    @property
    def has_ports(self) -> bool:
        return self.value.endswith(",port")

    @property
    def has_networks(self) -> bool:
        return self.value.startswith("hash:net")


@frozen
class PortMember:
    """An address or network, with a protocol that has ports and one of its ports."""

    where: IpAddress | IpNetwork
    protocol: str
    port: int

    def __attrs_post_init__(self) -> None:
        # ipset prints other protocols by names of its own, which netfw would not recognise.
        if self.protocol not in _PROTOCOLS or not 0 <= self.port <= 65535:
            known = ", ".join(sorted(_PROTOCOLS))
            raise InvalidInput({"member": f"{self.protocol}:{self.port} is no port of {known}"})

    def __str__(self) -> str:
        return f"{self.where},{self.protocol}:{self.port}"


Member = IpAddress | IpNetwork | PortMember


@frozen(kw_only=True)
class SetKind:
    """Kind of a set; two sets can be swapped only if theirs are equal."""

    type: SetType = SetType.NETWORK
    family: int = 4

    def __attrs_post_init__(self) -> None:
        if self.family not in (4, 6):
            raise InvalidInput({"family": f"{self.family!r} is neither 4 nor 6"})

    def __str__(self) -> str:
        return f"{self.type.value} for IPv{self.family}"


@frozen
class IpSet:
    """A desired set."""

    kind: SetKind
    members: frozenset[Member] = field(default=frozenset(), repr=False)


def full_name(owner: str, name: str) -> str:
    """Return the name of the set *name* of *owner* in the kernel and in rules.

    :raises InvalidInput: longer than the kernel takes, or with a character it could mistake.
    """
    full = f"{owner}-{name}"
    if not _NAME.fullmatch(name) or len(full) > NAME_LENGTH:
        raise InvalidInput({f"set {full!r}": f"not up to {NAME_LENGTH} of A-Z a-z 0-9 _ . : -"})
    return full


def check_owner(owner: str) -> None:
    """Refuse an owner that cannot distinguish its sets from those of another.

    :raises InvalidInput: it has a dash (which ends the owner in a set's name) or is too long.
    """
    if not _OWNER.fullmatch(owner):
        raise InvalidInput({f"owner {owner!r}": "not 1 to 16 of A-Z a-z 0-9 _"})


def elements(kind: SetKind, members: Iterable[Member]) -> Iterator[str]:
    """Return the elements that ipset stores for *members*: one each, two for a /0 network.

    ``hash:net`` has no /0, so that it is stored as its two halves.

    :raises InvalidInput: a member that a set of this kind cannot have.
    """
    plain = kind.type is SetType.NETWORK and kind.family == 4
    for member in members:
        # Groups have members by the thousand, nearly all of them of this kind; this is what `str`
        # makes of them, in half its time.
        if plain and type(member) is IPv4Network and (length := member.prefixlen):
            n = int(member.network_address)
            text = f"{n >> 24}.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}"
            yield text if length == 32 else f"{text}/{length}"
        else:
            yield from _elements(kind, member)


def _elements(kind: SetKind, member: Member) -> list[str]:
    where = member.where if isinstance(member, PortMember) else member
    suffix = f",{member.protocol}:{member.port}" if isinstance(member, PortMember) else ""
    part = isinstance(where, (IPv4Network, IPv6Network)) and where.prefixlen < where.max_prefixlen
    if (
        where.version != kind.family
        or bool(suffix) is not kind.type.has_ports
        or (part and not kind.type.has_networks)
    ):
        raise InvalidInput({f"member {member}": f"not possible in a set {kind}"})
    try:
        unscoped(where)
    except ValueError as error:
        raise InvalidInput({f"member {str(member)!r}": str(error)}) from error
    if not isinstance(where, (IPv4Network, IPv6Network)):
        return [f"{where}{suffix}"]
    if not part:
        return [f"{where.network_address}{suffix}"]
    return [f"{each}{suffix}" for each in ((where,) if where.prefixlen else where.subnets())]


def normal_element(word: str) -> str:
    """Normalise an element that ipset printed: addresses as Python spells them."""
    if ":" not in word:
        return word
    where, comma, port = word.partition(",")
    if "." not in where:
        return word  # only embedded IPv4 addresses are spelled in two ways
    spelled = ip_network(where) if "/" in where else ip_address(where)
    return f"{spelled}{comma}{port}"


def choose_max_elements(count: int) -> int:
    """Return the capacity (``maxelem``) of a set with *count* members: it seldom has to grow."""
    return max(MIN_CAPACITY, 1 << (count * 5 // 4).bit_length())
