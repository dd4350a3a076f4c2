"""The line of a logged packet: which port, which decision, and why.  Pure.

A rule with a remote group is named without knowing the members of the group: of an accepted packet,
all rules that may have allowed it are named; of a dropped one, those that would have allowed it if
the far end were a member.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from attrs import frozen

from netfw.model.packet_log import LogEvent
from netfw.model.security_group import Direction
from netfw.model.values.protocol import ICMP, ICMPV6, NAMES
from netfw_drivers.ovs.packet_log.plan.frames import ARP_TYPE, LoggedFrame
from netfw_drivers.ovs.packet_log.plan.log_subject import LoggedRule, LogSubject

NEW, ESTABLISHED, RELATED, REPLY, INVALID, TRACKED = (1 << bit for bit in range(6))
"""Bits of the connection's state."""
MAX_NAMED: Final = 5
"""Rules that a line names."""
_ROUTER_ADVERTISEMENT, _NEIGHBOUR_ADVERTISEMENT = 134, 136
_CLIENT_PORTS: Final = {4: 68, 6: 546}


@frozen(kw_only=True)
class PacketState:
    """What the switch knew about a packet."""

    ct_state: int = 0
    has_policy: bool = False
    """The rules of the port's groups were evaluated."""


def render_line(subject: LogSubject, frame: LoggedFrame, state: PacketState) -> str:
    """Render one line; values of requests are quoted."""
    pairs = {
        "action": subject.action.value,
        "direction": subject.direction.value,
        "port": subject.port,
        "project": json.dumps(subject.project),
        "logs": ",".join(subject.logs),
        "groups": ",".join(subject.groups),
        **dict(_packet_pairs(frame)),
        "reason": json.dumps(explain(subject, frame, state)),
    }
    return " ".join(f"{name}={value}" for name, value in pairs.items())


def _packet_pairs(frame: LoggedFrame) -> Iterator[tuple[str, str]]:
    yield "eth_src", frame.eth_src
    yield "eth_dst", frame.eth_dst
    if frame.protocol is not None:
        yield "protocol", NAMES.get(frame.protocol, str(frame.protocol))
    else:
        yield "protocol", "arp" if frame.eth_type == ARP_TYPE else f"{frame.eth_type:#06x}"
    if frame.src is not None and frame.dst is not None:
        yield "src", str(frame.src)
        yield "dst", str(frame.dst)
    if frame.first is not None:
        is_icmp = frame.protocol in (ICMP, ICMPV6)
        yield "type" if is_icmp else "src_port", str(frame.first)
        yield "code" if is_icmp else "dst_port", str(frame.second)


def passes_without_rule(subject: LogSubject, frame: LoggedFrame) -> bool:
    """Return whether the packet was accepted, and by no rule."""
    if subject.action is not LogEvent.ACCEPT or subject.rules is None:
        return False
    return not any(_matches(rule, subject.direction, frame) for rule in subject.rules)


def explain(subject: LogSubject, frame: LoggedFrame, state: PacketState) -> str:
    """Return why the packet was accepted or dropped."""
    if subject.action is LogEvent.ACCEPT:
        return _explain_accepted(subject, frame)
    if state.ct_state & INVALID:
        return "invalid: it belongs to no connection that the switch can follow"
    if not state.has_policy or frame.version is None:
        return _explain_refused(subject, frame)
    if state.ct_state & TRACKED and state.ct_state & (ESTABLISHED | RELATED | REPLY):
        return "no rule allows the connection that it belongs to any more"
    return _explain_missing(subject, frame)


def _explain_accepted(subject: LogSubject, frame: LoggedFrame) -> str:
    if subject.rules is None:
        return "the groups have too many rules to name the one that allows it"
    found = [rule for rule in subject.rules if _matches(rule, subject.direction, frame)]
    return f"allowed by {_named(found)}" if found else "allowed without a rule"


def _explain_refused(subject: LogSubject, frame: LoggedFrame) -> str:
    """Return why a packet was dropped before the rules of the port's groups."""
    if subject.direction is Direction.INGRESS:
        return "no port receives this without a rule, and rules are for IPv4 and IPv6 alone"
    if frame.has_ports and frame.second == _CLIENT_PORTS.get(frame.version or 0):
        return "only DHCP servers may send this"
    if frame.protocol == ICMPV6 and frame.first == _ROUTER_ADVERTISEMENT:
        return "only routers may send this"
    if frame.eth_type == ARP_TYPE or frame.protocol == ICMPV6:
        return (
            "it claims or probes for addresses that are not those of the port, or may not be sent"
        )
    return "its source MAC or IP address is not that of the port, nor an allowed address pair"


def _explain_missing(subject: LogSubject, frame: LoggedFrame) -> str:
    if not subject.groups:
        return "the port is in no security group, and so nothing is allowed"
    if frame.protocol == ICMPV6 and frame.first == _NEIGHBOUR_ADVERTISEMENT:
        return "it advertises an address that is not that of the port"
    text = f"no {subject.direction} rule of the port's groups allows it"
    far = frame.src if subject.direction is Direction.INGRESS else frame.dst
    near = [
        rule
        for rule in subject.rules or ()
        if rule.remote and _matches(rule, subject.direction, frame)
    ]
    for rule in near[:MAX_NAMED]:
        text += f"; rule {rule.id} of group {rule.group} would, if {far} were in {rule.remote}"
    return text + ("; and others" if len(near) > MAX_NAMED else "")


def _named(rules: list[LoggedRule]) -> str:
    texts = [f"rule {rule.id} of group {rule.group}" for rule in rules[:MAX_NAMED]]
    more = " or others" if len(rules) > MAX_NAMED else ""
    return " or ".join(texts) + more


def _matches(rule: LoggedRule, direction: Direction, frame: LoggedFrame) -> bool:
    """Return whether *rule* allows the packet, if its far end is in the group of the rule."""
    far = frame.src if direction is Direction.INGRESS else frame.dst
    if frame.version != rule.version or far is None:
        return False
    if rule.prefix is not None and far not in rule.prefix:
        return False
    if rule.protocol is None:
        return True
    return rule.protocol == frame.protocol and _matches_ports(rule, frame)


def _matches_ports(rule: LoggedRule, frame: LoggedFrame) -> bool:
    if rule.port_min is None or frame.first is None or frame.second is None:
        return True  # later fragments have no ports: they pass with the first one
    if rule.protocol in (ICMP, ICMPV6):
        return rule.port_min == frame.first and rule.port_max in (None, frame.second)
    return rule.port_max is not None and rule.port_min <= frame.second <= rule.port_max
