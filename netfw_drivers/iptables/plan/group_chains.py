"""The chains of a security group.  Pure.

All ports of the group share them.  A packet that a rule allows is accepted; any other returns to
the chain of the port, which jumps to its next group and drops the packet in the end.

Every packet is matched against the rules in force now: in a connection's original direction against
the rules of that direction, an answer against the rules under which the connection was opened, with
both ends exchanged.  So a removed rule ends its connections.

A chain without a rule on state is empty: a port is in a group that was not put.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache

from attrs import frozen

from netfw.drivers.firewall import Rules
from netfw.drivers.values.keys import GroupKey
from netfw.linux.bridge_firewall.remote_groups import remotes_of
from netfw.linux.ipset.values import full_name
from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.linux.iptables.rule import (
    ACCEPT,
    RETURN,
    Family,
    IptablesMatch,
    IptablesRule,
    Jump,
    match,
)
from netfw.model.security_group import Direction, SecurityGroupRule
from netfw.model.values.address import Mac
from netfw.model.values.ids import SecurityGroupId
from netfw.model.values.protocol import ICMP, ICMPV6, SCTP, TCP, UDP
from netfw_drivers.iptables.plan.names import (
    ANSWERS_IN,
    ANSWERS_OUT,
    EGRESS,
    INGRESS,
    SENDING_MACS,
    TAKING_MACS,
    set_name,
    short,
)

Chains = dict[ChainKey, Chain]
TABLE = "mangle"
"""Table of all rules, so that they change together: it has hooks before routing, for packets from
ports, and after it, for packets to ports."""

INVALID = IptablesRule(target=RETURN, matches=(match("conntrack", ctstate="INVALID"),))
RELATED = IptablesRule(target=ACCEPT, matches=(match("conntrack", ctstate="RELATED"),))
STATELESS = IptablesRule(target=None, comment="stateless")

_NAMES = {ICMP: "icmp", TCP: "tcp", UDP: "udp", ICMPV6: "ipv6-icmp", SCTP: "sctp"}
_ANY_ICMP = 255
"""ICMP type that iptables treats as all types."""
_ANSWERS = {
    ICMP: {8: 0, 13: 14, 15: 16, 17: 18},
    ICMPV6: {128: 129},
}
"""ICMP types of requests, with those of their answers."""
_LINK_LAYER = 0xFFE00000
"""Offset of the frame header in a BPF program."""


@frozen
class ChainKind:
    """Chains of one direction: rules, answers, and which end of a packet is remote."""

    rules: str
    answers: str
    inward: bool


KINDS = {
    Direction.EGRESS: ChainKind(EGRESS, ANSWERS_IN, inward=False),
    Direction.INGRESS: ChainKind(INGRESS, ANSWERS_OUT, inward=True),
}


@lru_cache(maxsize=1 << 16)
def in_table(family: int, name: str) -> ChainKey:
    """Return the key of a chain in the table of rules."""
    return ChainKey(family=Family(family), table=TABLE, name=name)


def group_key(id: SecurityGroupId, family: int, direction: Direction) -> ChainKey:
    """Return the key of a group's rules for one direction."""
    return in_table(family, f"{KINDS[direction].rules}{short(id)}")


def empty_group(id: SecurityGroupId) -> Chains:
    """Build the chains of a group that allows nothing."""
    return {
        group_key(id, family, direction): Chain() for family in Family for direction in Direction
    }


def group_keys(id: SecurityGroupId) -> list[ChainKey]:
    """Return the keys of all chains that a group may have."""
    kinds = (EGRESS, INGRESS, ANSWERS_IN, ANSWERS_OUT)
    return [in_table(family, f"{kind}{short(id)}") for family in Family for kind in kinds]


def macs_keys(id: SecurityGroupId, family: int) -> tuple[ChainKey, ChainKey]:
    """Return the keys of the MAC addresses in a group: as senders, and as receivers."""
    return (
        in_table(family, f"{SENDING_MACS}{short(id)}"),
        in_table(family, f"{TAKING_MACS}{short(id)}"),
    )


def macs_chains(id: SecurityGroupId, family: int, macs: Iterable[Mac]) -> Chains:
    """Build chains that accept packets from *macs*, and to them."""
    sending, taking = macs_keys(id, family)
    ordered = sorted(macs)
    return {
        sending: Chain(tuple(map(sent_by, ordered))),
        taking: Chain(tuple(map(sent_to, ordered))),
    }


@cache
def sent_by(mac: Mac) -> IptablesRule:
    """Build a rule that accepts packets from *mac*."""
    return IptablesRule(target=ACCEPT, matches=(match("mac", mac_source=mac),))


@cache
def sent_to(mac: Mac) -> IptablesRule:
    """Build a rule that accepts packets to *mac*.

    iptables has no match for it: the BPF program compares the first four and the other two bytes.
    """
    octets = bytes.fromhex(mac.replace(":", ""))
    head, tail = int.from_bytes(octets[:4]), int.from_bytes(octets[4:])
    program = (
        f"6,32 0 0 {_LINK_LAYER},21 0 3 {head},40 0 0 {_LINK_LAYER + 4},21 0 1 {tail},"
        "6 0 0 65535,6 0 0 0"
    )
    return IptablesRule(target=ACCEPT, matches=(match("bpf", bytecode=program),))


def group_chains(id: SecurityGroupId, rules: Rules, owner: str) -> Chains:
    """Render *rules* as chains.

    :raises InvalidInput: iptables could misread a rule.
    """
    chains: Chains = {}
    for family in Family:
        for direction, kind in KINDS.items():
            own = [
                rule
                for rule in rules.rules
                if rule.direction is direction and rule.ethertype.ip_version == family
            ]
            opposite = KINDS[_other(direction)]
            head = _state(id, opposite.answers) if rules.stateful else (STATELESS,)
            lines = (line for rule in own for line in render(rule, owner, inward=kind.inward))
            chains[in_table(family, f"{kind.rules}{short(id)}")] = Chain((*head, *_ordered(lines)))
            if rules.stateful:
                back = (
                    line for rule in own for line in render_answers(rule, owner, inward=kind.inward)
                )
                key = in_table(family, f"{kind.answers}{short(id)}")
                chains[key] = Chain(tuple(_ordered(back)))
    return chains


def _other(direction: Direction) -> Direction:
    return Direction.INGRESS if direction is Direction.EGRESS else Direction.EGRESS


@cache
def _reply() -> IptablesMatch:
    return match("conntrack", ctstate="ESTABLISHED", ctdir="REPLY")


def _state(id: SecurityGroupId, answers: str) -> tuple[IptablesRule, ...]:
    to_answers = IptablesRule(target=Jump(f"{answers}{short(id)}", goto=True), matches=(_reply(),))
    return INVALID, RELATED, to_answers


def _ordered(lines: Iterable[IptablesRule]) -> list[IptablesRule]:
    by_text = {f"{line.text} {line.target}": line for line in lines}
    return [by_text[text] for text in sorted(by_text)]


def render(rule: SecurityGroupRule, owner: str, *, inward: bool) -> Iterator[IptablesRule]:
    """Render one rule."""
    return _lines(rule, tuple(_transport(rule)), owner, inward)


def render_answers(rule: SecurityGroupRule, owner: str, *, inward: bool) -> Iterator[IptablesRule]:
    """Render the rules for answers in connections that *rule* allows."""
    if rule.icmp_type is None:
        yield from _lines(rule, tuple(_transport(rule, answers=True)), owner, not inward)
        return
    kind = _ANSWERS.get(rule.ip_protocol or 0, {}).get(rule.icmp_type)
    if kind is not None:
        yield from _lines(rule, (_icmp(rule.ip_protocol, str(kind)),), owner, not inward)


def _lines(
    rule: SecurityGroupRule, matches: tuple[IptablesMatch, ...], owner: str, remote_sends: bool
) -> Iterator[IptablesRule]:
    """Render by remote; two rules where members may be matched by their MAC address alone."""
    protocol = _NAMES.get(rule.ip_protocol or 0) or _number(rule.ip_protocol)
    for remote, version in remotes_of(rule):
        name = full_name(owner, set_name(remote, version))
        chosen = match("set", match_set=(name, "src" if remote_sends else "dst"))
        yield IptablesRule(target=ACCEPT, protocol=protocol, matches=(*matches, chosen))
        if isinstance(remote, GroupKey):
            macs = macs_keys(remote.group, version)[0 if remote_sends else 1]
            yield IptablesRule(target=Jump(macs.name), protocol=protocol, matches=matches)
        return
    prefix = rule.remote_prefix
    source, destination = (prefix, None) if remote_sends else (None, prefix)
    yield IptablesRule(
        target=ACCEPT, source=source, destination=destination, protocol=protocol, matches=matches
    )


def _number(protocol: int | None) -> str | None:
    return None if protocol is None else str(int(protocol))


def _transport(rule: SecurityGroupRule, *, answers: bool = False) -> Iterator[IptablesMatch]:
    """Yield the matches on the transport header."""
    if rule.ports is not None:
        first, last = int(rule.ports.first), int(rule.ports.last)
        ports = str(first) if first == last else f"{first}:{last}"
        name = _NAMES.get(rule.ip_protocol or 0)
        side = "sport" if answers else "dport"
        if name is None:
            yield match("multiport", **{f"{side}s": ports})
        else:
            yield match(name, **{side: ports})
    elif rule.icmp_type is not None:
        kind, code = int(rule.icmp_type), rule.icmp_code
        if rule.ip_protocol == ICMP and kind == _ANY_ICMP:
            yield match("u32", u32=_type_255(code))
        else:
            yield _icmp(rule.ip_protocol, str(kind) if code is None else f"{kind}/{int(code)}")


def _icmp(protocol: int | None, kind: str) -> IptablesMatch:
    if protocol == ICMP:
        return match("icmp", icmp_type=kind)
    return match("icmp6", icmpv6_type=kind)


def _type_255(code: int | None) -> str:
    head = "0x0>>0x16&0x3c@0x0>>"
    return f"{head}0x18=0xff" if code is None else f"{head}0x10=0xff{int(code):02x}"
