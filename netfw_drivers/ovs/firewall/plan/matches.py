"""Matches of rules, and of the packets that a member sends or receives.  Pure.

Rules of stateful groups match the packet that opened a connection, whichever way the packet at hand
goes: so its replies and the errors about it are subject to the same rule, and end with it.  Rules
of stateless groups match the packet itself.

A later fragment has no ports.  Every rule with ports or ICMP types also matches the later fragments
of its protocol: they are useless without the first fragment, which is matched in full.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network

from attrs import frozen

from netfw import flows as of
from netfw.flows.field import FIELD, IPV4_TYPE
from netfw.model.security_group import Direction, SecurityGroupRule
from netfw.model.values.address import IpNetwork, Mac
from netfw.model.values.port_range import PortRange
from netfw.model.values.protocol import ICMP, ICMPV6, SCTP, TCP, UDP
from netfw_drivers.ovs.pipeline.tables import DIRECTION, RULES_EGRESS, RULES_INGRESS

SENDS, RECEIVES = 0, 1
"""Values of `DIRECTION`."""
_PORT_BITS = 16
_PORT_MASK = (1 << _PORT_BITS) - 1
_VALID = of.ct_state("+trk-inv")
_ANYWHERE = of.ct_state("-snat")
"""Holds for all packets here.  A flow can fulfil one clause of a conjunction only, so that members
with all addresses must not have the flow of rules for all protocols."""
_WAYS = (RECEIVES, of.eth_src), (SENDS, of.eth_dst)
"""Where the far end's MAC address is."""
_DESTINATION = {TCP: of.tcp_dst, UDP: of.udp_dst, SCTP: of.sctp_dst}


class RuleStage(enum.Enum):
    """Where rules are matched: of one direction, and of stateful or stateless groups."""

    EGRESS = (Direction.EGRESS, True)
    INGRESS = (Direction.INGRESS, True)
    EGRESS_PLAIN = (Direction.EGRESS, False)
    INGRESS_PLAIN = (Direction.INGRESS, False)

    def __init__(self, direction: Direction, stateful: bool) -> None:
        self.direction, self.stateful = direction, stateful
        inward = direction is Direction.INGRESS
        self.table = RULES_INGRESS if inward else RULES_EGRESS
        self.priority = 70 if stateful else 110
        self.way = RECEIVES if inward else SENDS
        """The way of packets that open a connection."""


def rule_stage_for(direction: Direction, *, stateful: bool) -> RuleStage:
    """Return where rules of this direction, in groups of this kind, are matched."""
    return _RULE_STAGES[direction, stateful]


_RULE_STAGES = {stage.value: stage for stage in RuleStage}


@frozen(cache_hash=True)
class ClauseMatch:
    """A match with clauses: the switch has one flow of each, for all conjunctions that use it."""

    stage: RuleStage
    match: of.Match

    def flow(self, *actions: of.Action, cookie: int) -> of.Flow:
        stage = self.stage
        return stage.table.flow(self.match, *actions, priority=stage.priority, cookie=cookie)


@frozen(cache_hash=True)
class MemberAddresses:
    """The addresses that identify a member."""

    prefix: IpNetwork
    mac: Mac | None = None


def masked(ports: PortRange) -> Iterator[tuple[int, int]]:
    """Yield the fewest values and masks that together match *ports* and nothing else."""
    first, last = ports.first, ports.last
    while first <= last:
        size = first & -first
        while first + size - 1 > last:
            size >>= 1
        yield first, _PORT_MASK & ~(size - 1)
        first += size


def rule_matches(rule: SecurityGroupRule, *, stateful: bool) -> frozenset[ClauseMatch]:
    """Return the clauses that *rule* is made of."""
    stage = rule_stage_for(rule.direction, stateful=stateful)
    base = _family(stage, rule.ethertype.ip_version) & _far_end(stage, rule.remote_prefix)
    return frozenset(ClauseMatch(stage, base & part) for part in _transport(stage, rule))


def member_matches(stage: RuleStage, address: MemberAddresses) -> tuple[ClauseMatch, ...]:
    """Return the matches of packets to and from a member."""
    base = _family(stage, address.prefix.version) & _far_end(stage, address.prefix)
    if address.mac is None:
        return (ClauseMatch(stage, base if address.prefix.prefixlen else base & _ANYWHERE),)
    if not stage.stateful:
        (here,) = (word for way, word in _WAYS if way == stage.way)
        return (ClauseMatch(stage, base & here(address.mac)),)
    return tuple(
        ClauseMatch(stage, base & DIRECTION.is_(way) & word(address.mac)) for way, word in _WAYS
    )


def address_at(clause_match: ClauseMatch) -> MemberAddresses | None:
    """Return the member that *clause_match* matches, or ``None`` if it matches no member."""
    match = clause_match.match
    family, ends = match.get("eth_type"), (match.get("eth_src"), match.get("eth_dst"))
    if family is None:
        return None
    version = 4 if family[0] == IPV4_TYPE else 6
    found = match.get(_far_field(clause_match.stage, version)) or (0, 0)
    macs = [_mac(end[0]) for end in ends if end is not None]
    address = MemberAddresses(_prefix(version, *found), macs[0] if macs else None)
    return address if clause_match in member_matches(clause_match.stage, address) else None


def _transport(stage: RuleStage, rule: SecurityGroupRule) -> Iterator[of.Match]:
    """Yield matches of protocol, ports and ICMP types."""
    number, ports = rule.ip_protocol, rule.ports
    if number is None:
        yield of.ANYTHING
        return
    protocol = of.ct_nw_proto(number) if stage.stateful else of.ip_proto(number)
    if ports is not None:
        for value, mask in masked(ports):
            for found in _ports(stage, number, value, mask):
                yield protocol & found
    elif rule.icmp_type is not None:
        yield protocol & _icmp(stage, number, rule.icmp_type, rule.icmp_code)
    else:
        yield protocol
        return
    yield protocol & of.ip_frag("later")


def _ports(stage: RuleStage, protocol: int, value: int, mask: int) -> Iterator[of.Match]:
    if not stage.stateful:
        yield _DESTINATION[protocol](value, mask)
    elif protocol != SCTP:
        yield of.ct_tp_dst(value, mask)
    else:  # not every datapath tells the ports of the packet that opened an SCTP association
        yield of.ip_proto(SCTP) & DIRECTION.is_(stage.way) & of.sctp_dst(value, mask)
        yield of.ip_proto(SCTP) & DIRECTION.is_(1 - stage.way) & of.sctp_src(value, mask)


def _icmp(stage: RuleStage, protocol: int, kind: int, code: int | None) -> of.Match:
    if stage.stateful:
        found = of.ct_tp_src(kind)
        return found if code is None else found & of.ct_tp_dst(code)
    assert protocol in (ICMP, ICMPV6)
    of_type, of_code = (
        (of.icmp_type, of.icmp_code) if protocol == ICMP else (of.icmpv6_type, of.icmpv6_code)
    )
    found = of_type(kind)
    return found if code is None else found & of_code(code)


def _family(stage: RuleStage, version: int) -> of.Match:
    family = of.ipv4() if version == 4 else of.ipv6()
    return family & _VALID if stage.stateful else family


def _far_end(stage: RuleStage, prefix: IpNetwork | None) -> of.Match:
    """Return a match of connections whose far end is in *prefix*."""
    if prefix is None or not prefix.prefixlen:
        return of.ANYTHING
    where = FIELD[_far_field(stage, prefix.version)]
    return of.matching(where, int(prefix.network_address), int(prefix.netmask))


def _far_field(stage: RuleStage, version: int) -> str:
    side = "src" if stage.direction is Direction.INGRESS else "dst"
    if not stage.stateful:
        return f"ipv{version}_{side}"
    return f"ct_nw_{side}" if version == 4 else f"ct_ipv6_{side}"


def _prefix(version: int, value: int, mask: int) -> IpNetwork:
    length = mask.bit_count()
    return IPv4Network((value, length)) if version == 4 else IPv6Network((value, length))


def _mac(number: int) -> Mac:
    return Mac(":".join(f"{byte:02x}" for byte in number.to_bytes(6)))
