"""Flows of the firewall: static ones, and those of ports, policies and conjunctions.  Pure.

Table 71 checks the sender's addresses, 81 what every port may receive.  72 and 82 apply the rules:
72 those for connections that a port opens, 82 those for connections that others open to it.
Replies are checked in the table of the other direction.  73 commits connections that were allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from attrs import frozen

from netfw import flows as of
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.keys import PortKey
from netfw.flows.field import ADVERTISEMENT, SOLICITATION
from netfw.model.values.address import Mac
from netfw_drivers.ovs.firewall.plan.conjunction_notes import (
    ConjunctionUse,
    Groups,
    Permit,
    PortNote,
    write,
)
from netfw_drivers.ovs.firewall.plan.matches import RECEIVES, SENDS, RuleStage, rule_stage_for
from netfw_drivers.ovs.pipeline.tables import (
    ACCEPT_OR_INGRESS,
    ACCEPTED,
    ACCEPTED_EGRESS,
    ACCEPTED_INGRESS,
    BASE_EGRESS,
    BASE_INGRESS,
    DIRECTION,
    DROPPED,
    FIREWALL_SPACE,
    LOCAL_OUTPUT,
    NETWORK,
    POLICY,
    PORT,
    RULES_EGRESS,
    RULES_INGRESS,
    TARGET,
)

COOKIE = FIREWALL_SPACE
GROUP_BIT = "01:00:00:00:00:00/01:00:00:00:00:00"
_ARP_NOBODY, _FROM_NOBODY = of.arp_spa("0.0.0.0"), of.ipv4_src("0.0.0.0")
_FROM_UNSPECIFIED = of.ipv6_src("::")
_QUERY, _REPORT, _DONE, _ROUTER_SOLICITATION, _ROUTER, _REPORT_2 = 130, 131, 132, 133, 134, 143
_SENT_TYPES = (_ROUTER_SOLICITATION, SOLICITATION, _REPORT, _DONE, _REPORT_2)
"""ICMPv6 types that every port may send: neighbour discovery and multicast membership."""
_RECEIVED_TYPES = (_QUERY, _REPORT, _DONE, _ROUTER, SOLICITATION, ADVERTISEMENT, _REPORT_2)
"""ICMPv6 types that every port may receive."""
_TO_SERVER = (
    of.udp() & of.udp_src(68) & of.udp_dst(67),
    of.udp6() & of.udp_src(546) & of.udp_dst(547),
)
_TO_CLIENT = (
    of.udp() & of.udp_src(67) & of.udp_dst(68),
    of.udp6() & of.udp_src(547) & of.udp_dst(546),
)
_CLIENT_BOUND = (of.udp() & of.udp_dst(68), of.udp6() & of.udp_dst(546))
"""What a DHCP server sends: clients accept it from any source port."""
_HIDDEN_PROTOCOL = (
    of.ipv6() & of.ip_proto(0),
    of.udp6() & of.ip_frag("first") & of.udp_src(0) & of.udp_dst(0),
    of.icmpv6() & of.ip_frag("first") & of.icmpv6_type(0),
)
"""IPv6 whose extension headers hide the upper protocol until it is reassembled."""
_ARP_PROBE = of.arp() & _ARP_NOBODY
_NEIGHBOUR_PROBE = of.icmpv6() & of.icmpv6_type(SOLICITATION) & _FROM_UNSPECIFIED
"""Duplicate address detection.  A probe of another port's address would deny it that address."""
_BOTH = of.ipv4(), of.ipv6()
_UNTRACKED, _INVALID = of.ct_state("-inv-trk"), of.ct_state("+inv")
"""Fragments that reassembly gives up on are invalid without having been tracked."""
_ADVERTISEMENT = of.icmpv6() & of.icmpv6_type(ADVERTISEMENT) & _UNTRACKED
_FIRST_REQUEST = _TO_SERVER[0] & _FROM_NOBODY
_UNADDRESSED = of.icmpv6() & _FROM_UNSPECIFIED
"""What a device sends that has no address yet: to a DHCP server, and to its neighbours."""
_NEW, _REPLY = of.ct_state("+new+trk"), of.ct_state("+rpl+trk")
_ANSWER = of.ct_state("-rel+rpl-inv+trk")
RECORD = 1
"""Priority of flows that carry a note only; packets that reach them are dropped anyhow."""


@frozen(kw_only=True)
class PortFlows:
    """All values that the flows of a port are made of."""

    key: PortKey
    number: int
    """The switch's."""
    policy: int
    """That of its groups; 0: it is trusted."""
    sources: frozenset[AllowedSource] = frozenset()


def _flow(table: of.Table, match: of.Match, *actions: of.Action, priority: int) -> of.Flow:
    return table.flow(match, *actions, priority=priority, cookie=COOKIE)


def _icmpv6(kind: int) -> of.Match:
    return of.icmpv6() & of.icmpv6_type(kind)


def static_flows() -> Iterator[of.Flow]:
    """Yield the flows that all ports share."""
    yield from _multicast_tracking()
    for forbidden in (*_CLIENT_BOUND, _icmpv6(_ROUTER), *_HIDDEN_PROTOCOL):
        yield _flow(BASE_EGRESS, forbidden, of.goto(DROPPED), priority=90)
    yield _flow(BASE_EGRESS, _ARP_PROBE, of.goto(DROPPED), priority=41)
    yield _flow(BASE_EGRESS, _NEIGHBOUR_PROBE, of.goto(DROPPED), priority=31)
    for allowed in (*map(_icmpv6, _SENT_TYPES), *_TO_SERVER):
        onward = of.goto(ACCEPTED_EGRESS)
        yield _flow(RULES_EGRESS, _UNTRACKED & allowed, onward, priority=120)
    claim = _UNTRACKED & _icmpv6(ADVERTISEMENT)
    yield _flow(RULES_EGRESS, claim, of.goto(DROPPED), priority=119)
    unaddressed = _UNTRACKED & of.ipv6() & _FROM_UNSPECIFIED
    yield _flow(RULES_EGRESS, unaddressed, of.goto(DROPPED), priority=118)
    yield from _tracking()
    for allowed in (of.arp(), *map(_icmpv6, _RECEIVED_TYPES), *_TO_CLIENT):
        yield _flow(BASE_INGRESS, allowed, of.goto(ACCEPTED_INGRESS), priority=40)


def _multicast_tracking() -> Iterator[of.Flow]:
    """Yield the flows that track a packet for many ports once, not once for each of them."""
    many = of.eth_dst(GROUP_BIT) & _UNTRACKED
    for kind in (*_RECEIVED_TYPES, _ROUTER_SOLICITATION):
        yield _flow(ACCEPTED, many & _icmpv6(kind), of.goto(LOCAL_OUTPUT), priority=11)
    for family in _BOTH:
        yield _flow(ACCEPTED, many & family, _track(ACCEPTED), priority=10)


def _track(back: of.Table) -> of.Action:
    return of.ct(table=back.number, zone=NETWORK.bits)


def _tracking() -> Iterator[of.Flow]:
    """Yield the flows that track packets, and send replies to the table of the other direction.

    A packet that was tracked begins again where its policy is loaded.  The switch handles it apart,
    perhaps after an update, and then the number of a policy that was loaded before could be gone,
    or that of another policy.
    """
    for base, table, other, way in (
        (BASE_EGRESS, RULES_EGRESS, RULES_INGRESS, SENDS),
        (BASE_INGRESS, RULES_INGRESS, RULES_EGRESS, RECEIVES),
    ):
        here = DIRECTION.is_(way)
        yield _flow(table, _INVALID, of.goto(DROPPED), priority=100)
        yield _flow(table, here & _REPLY, of.goto(other), priority=90)
        for family in _BOTH:
            yield _flow(table, _UNTRACKED & family, _track(base), priority=10)
    yield from _role_changes()
    for way, onward in ((SENDS, ACCEPTED_EGRESS), (RECEIVES, ACCEPTED_INGRESS)):
        here = DIRECTION.is_(way)
        for family in _BOTH:
            commit = of.ct(commit=True, zone=NETWORK.bits)
            yield _flow(
                ACCEPT_OR_INGRESS, here & _NEW & family, commit, of.goto(onward), priority=10
            )
        yield _flow(ACCEPT_OR_INGRESS, here, of.goto(onward), priority=5)


def _role_changes() -> Iterator[of.Flow]:
    """Yield the flows that take a reply for a new connection once its request is forbidden.

    Otherwise two ends that use the same port number could never change roles.  The packet begins
    again at its sender; at the receiver it is dropped, since the sender was checked for a reply.
    The tracked state is cleared first: when the packet before has turned the entry, the switch
    would still call this packet a reply.
    """
    turn = of.ct(commit=True, force=True, zone=NETWORK.bits, table=BASE_EGRESS.number)
    end = of.ct(commit=True, force=True, zone=NETWORK.bits), of.goto(DROPPED)
    for family in _BOTH:
        sent, received = (DIRECTION.is_(way) & _ANSWER & family for way in (SENDS, RECEIVES))
        yield _flow(RULES_INGRESS, sent, of.CtClear(), turn, priority=5)
        yield _flow(RULES_EGRESS, received, *end, priority=5)


def port_flows(port: PortFlows) -> Iterator[of.Flow]:
    """Yield the flows that check what a port sends, and apply its policy to what it receives."""
    here, there = PORT.is_(port.number), TARGET.is_(port.number)
    note = of.Note(write(PortNote(port.key, port.policy)))
    if not port.policy:
        yield _flow(BASE_EGRESS, here, of.goto(ACCEPTED_EGRESS), priority=95)
        yield _flow(BASE_INGRESS, there, note, of.goto(ACCEPTED_INGRESS), priority=95)
        return
    to_rules = of.load(POLICY, port.policy), of.load(DIRECTION, SENDS), of.goto(RULES_EGRESS)
    for source in port.sources:
        yield from _source_flows(here, source, to_rules)
    for mac in {source.mac for source in port.sources}:
        yield from _unaddressed_flows(here, mac, to_rules)
    actions = of.load(POLICY, port.policy), of.load(DIRECTION, RECEIVES), of.goto(RULES_INGRESS)
    # One flow for both IP versions: rules match no other frames, so that these are dropped there.
    yield _flow(BASE_INGRESS, there, note, *actions, priority=10)


def _source_flows(
    here: of.Match, source: AllowedSource, to_rules: tuple[of.Action, ...]
) -> Iterator[of.Flow]:
    """Yield what a port may send as *source*; a prefix of length 0 is not matched."""
    mac, prefix = of.eth_src(source.mac), source.prefix
    anything = not prefix.prefixlen
    accepted = of.goto(ACCEPTED_EGRESS)
    if isinstance(prefix, IPv4Network):
        claim = mac & of.arp() & of.arp_sha(source.mac) & here
        probe = claim & _ARP_NOBODY
        sent = mac & of.ipv4() & here
        yield _flow(
            BASE_EGRESS, probe if anything else probe & of.arp_tpa(prefix), accepted, priority=42
        )
        yield _flow(
            BASE_EGRESS, claim if anything else claim & of.arp_spa(prefix), accepted, priority=40
        )
        yield _flow(
            BASE_EGRESS, sent if anything else sent & of.ipv4_src(prefix), *to_rules, priority=20
        )
    else:
        claim = _ADVERTISEMENT & mac & here
        probe = _NEIGHBOUR_PROBE & mac & here
        sent = mac & of.ipv6() & here
        own_probe = probe if anything else probe & of.nd_target(prefix)
        yield _flow(BASE_EGRESS, own_probe, *to_rules, priority=32)
        own = claim if anything else claim & of.nd_target(prefix)
        yield _flow(RULES_EGRESS, own, accepted, priority=120)
        yield _flow(
            BASE_EGRESS, sent if anything else sent & of.ipv6_src(prefix), *to_rules, priority=20
        )


def _unaddressed_flows(
    here: of.Match, mac: Mac, to_rules: tuple[of.Action, ...]
) -> Iterator[of.Flow]:
    """Yield what a device may send that has no address yet."""
    own, accepted = of.eth_src(mac), of.goto(ACCEPTED_EGRESS)
    yield _flow(BASE_EGRESS, own & _FIRST_REQUEST & here, accepted, priority=41)
    yield _flow(BASE_EGRESS, own & _UNADDRESSED & here, *to_rules, priority=30)


def policy_flows(
    number: int, groups: Groups, permits: tuple[tuple[RuleStage, tuple[tuple[int, int], ...]], ...]
) -> Iterator[of.Flow]:
    """Yield the flows of a policy; *permits* are numbers of conjunctions and of their clauses."""
    here = POLICY.is_(number)
    record = of.Note(write(groups)), of.goto(DROPPED)
    yield _flow(RULES_INGRESS, here, *record, priority=RECORD)
    for stage, found in permits:
        match = here if stage.stateful else here & DIRECTION.is_(stage.way)
        clauses = (of.Conjunction(id, 1, count) for id, count in found)
        yield _flow(stage.table, match, *clauses, priority=stage.priority)


def conjunction_flows(number: int, meaning: ConjunctionUse) -> Iterator[of.Flow]:
    """Yield the flow of packets that match a conjunction, with the note of its use."""
    note, here = of.Note(write(meaning)), of.conj_id(number)
    if not isinstance(meaning, Permit):
        yield _flow(RULES_INGRESS, here, note, of.goto(DROPPED), priority=RECORD)
        return
    stage = rule_stage_for(meaning.direction, stateful=meaning.stateful)
    onward = ACCEPTED_EGRESS if stage is RuleStage.EGRESS_PLAIN else ACCEPT_OR_INGRESS
    yield _flow(stage.table, here, note, of.goto(onward), priority=stage.priority)
