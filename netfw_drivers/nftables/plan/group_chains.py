"""The chains of a security group, and those of its members.  Pure.

All ports of the group share them.  A packet that a rule allows is accepted; any other returns to
the chain of the port, which jumps to its next group and drops the packet in the end.

Every packet is matched against the rules in force now: in a connection's original direction against
the rules of that direction, an answer against the rules under which the connection was opened, with
both ends exchanged.  So a removed rule ends its connections.

Members are in sets, one for each length of their prefixes, so that prefixes that overlap need no
merging and one more member is one more element.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address

from netfw.drivers.firewall import Rules
from netfw.linux.bridge_firewall.remote_groups import Remote, remotes_of
from netfw.linux.nftables.values import NftChain, NftRule, NftSetKind, make_rule
from netfw.model.security_group import Direction, SecurityGroupRule
from netfw.model.values.ids import SecurityGroupId
from netfw.model.values.protocol import DCCP, ICMP, ICMPV6, SCTP, TCP, UDP, UDPLITE
from netfw_drivers.nftables.plan.expressions import (
    ACCEPT,
    CONTINUE,
    INVALID,
    RELATED,
    REPLY,
    RETURN,
    Statement,
    address,
    address_text,
    goto,
    jump,
    match,
    meta,
    payload,
    state_vmap,
    within,
)
from netfw_drivers.nftables.plan.names import (
    ANSWERS,
    EGRESS,
    FAMILIES,
    FROM,
    INGRESS,
    TO,
    chain_name,
    macs_name,
    max_length,
    remote_chain,
    set_name,
)

KINDS = {Direction.EGRESS: EGRESS, Direction.INGRESS: INGRESS}
MACS_KIND = NftSetKind(("ether_addr",))

_PORTS = {TCP: "tcp", UDP: "udp", SCTP: "sctp", DCCP: "dccp", UDPLITE: "udplite"}
_ANSWERS = {ICMP: {8: 0, 13: 14, 15: 16, 17: 18}, ICMPV6: {128: 129}}
"""ICMP types of requests, with those of their answers."""
_ICMP = {ICMP: "icmp", ICMPV6: "icmpv6"}
_STATELESS = make_rule(CONTINUE, comment="stateless")


def members_kind(family: int) -> NftSetKind:
    """Return the kind of the sets of members."""
    return NftSetKind((f"ipv{family}_addr",))


def group_chain_names(id: SecurityGroupId) -> list[str]:
    """Return the names of all chains that a group may have."""
    kinds = [f"{kind}{suffix}" for kind in (EGRESS, INGRESS) for suffix in ("", ANSWERS)]
    return [chain_name(kind, family, id) for family in FAMILIES for kind in kinds]


def empty_group(id: SecurityGroupId) -> dict[str, NftChain]:
    """Build the chains of a group that was not put: it allows nothing."""
    return {chain_name(k, family, id): NftChain() for family in FAMILIES for k in (EGRESS, INGRESS)}


def group_chains(id: SecurityGroupId, rules: Rules) -> dict[str, NftChain]:
    """Render *rules* as chains."""
    chains: dict[str, NftChain] = {}
    for family in FAMILIES:
        for direction, kind in KINDS.items():
            own = [
                rule
                for rule in rules.rules
                if rule.direction is direction and rule.ethertype.ip_version == family
            ]
            opposite = INGRESS if kind == EGRESS else EGRESS
            answers = chain_name(f"{opposite}{ANSWERS}", family, id)
            head = _state(answers) if rules.stateful else _STATELESS
            lines = _ordered(_render(rule, remote_sends=kind == INGRESS) for rule in own)
            chains[chain_name(kind, family, id)] = NftChain((head, *lines))
            if rules.stateful:
                back = _ordered(_render_answers(rule, kind == INGRESS) for rule in own)
                chains[chain_name(f"{kind}{ANSWERS}", family, id)] = NftChain(tuple(back))
    return chains


def _state(answers: str) -> NftRule:
    return make_rule(state_vmap({INVALID: RETURN, RELATED: ACCEPT, REPLY: goto(answers)}))


def _ordered(rendered: Iterable[NftRule | None]) -> list[NftRule]:
    return sorted({rule for rule in rendered if rule is not None}, key=lambda rule: rule.text)


def _render(rule: SecurityGroupRule, *, remote_sends: bool) -> NftRule:
    return _line(rule, _transport(rule, "dport"), remote_sends)


def _render_answers(rule: SecurityGroupRule, inward: bool) -> NftRule | None:
    """Render the rule for answers in connections that *rule* allows."""
    if rule.icmp_type is None:
        return _line(rule, _transport(rule, "sport"), not inward)
    protocol = rule.ip_protocol or 0
    kind = _ANSWERS.get(protocol, {}).get(rule.icmp_type)
    if kind is None:
        return None
    return _line(rule, [match(payload(_ICMP[protocol], "type"), kind)], not inward)


def _line(rule: SecurityGroupRule, transport: list[Statement], remote_sends: bool) -> NftRule:
    for remote in remotes_of(rule):
        return make_rule(*transport, jump(remote_chain(FROM if remote_sends else TO, remote)))
    prefix = rule.remote_prefix
    where: list[Statement] = []
    if prefix is not None and prefix.prefixlen:
        where = within(prefix, "saddr" if remote_sends else "daddr")
    return make_rule(*where, *transport, ACCEPT)


def _transport(rule: SecurityGroupRule, side: str) -> list[Statement]:
    """Return the matches on the transport header."""
    protocol = rule.ip_protocol
    if protocol is None:
        return []
    if rule.ports is not None:
        first, last = int(rule.ports.first), int(rule.ports.last)
        wanted = first if first == last else {"range": [first, last]}
        return [match(payload(_PORTS.get(protocol, "th"), side), wanted)]
    if rule.icmp_type is not None:
        found = [match(payload(_ICMP[protocol], "type"), int(rule.icmp_type))]
        if rule.icmp_code is not None:
            found.append(match(payload(_ICMP[protocol], "code"), int(rule.icmp_code)))
        return found
    return [match(meta("l4proto"), int(protocol))]


def remote_chains(remote: Remote, lengths: Iterable[int], *, macs: bool) -> dict[str, NftChain]:
    """Build the chains that accept packets from members, and to them.

    :param lengths: those of the members' prefixes.
    :param macs: some members are matched by their MAC address.
    """
    family, chains = remote[1], {}
    for kind, field in ((FROM, "saddr"), (TO, "daddr")):
        rules = []
        for length in sorted(lengths, reverse=True):
            left = address(family, field)
            if length != max_length(family):
                left = {"&": [left, _netmask(family, length)]}
            rules.append(make_rule(match(left, f"@{set_name(remote, length)}"), ACCEPT))
        if macs:
            members = match(payload("ether", field), f"@{macs_name(remote)}")
            rules.append(make_rule(members, ACCEPT))
        chains[remote_chain(kind, remote)] = NftChain(tuple(rules))
    return chains


def _netmask(family: int, length: int) -> str:
    bits = max_length(family)
    number = ((1 << bits) - 1) ^ ((1 << (bits - length)) - 1)
    return address_text(IPv4Address(number) if family == 4 else IPv6Address(number))
