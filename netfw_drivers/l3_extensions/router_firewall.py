"""RouterFirewallExtension: filters what enters and leaves by the interfaces of a router.

All rules are in the filter table, in the chain that ``FORWARD`` enters::

    replies and related packets  -> RETURN
    in by a port of a group      -> egress chain of the group
    out by a port of a group     -> ingress chain of the group

A chain of a group returns what the group allows and drops the rest, so that a packet between two
groups passes both.  Rules are asked for every packet of the side that opened a connection: one that
is denied from now on is cut, and one that is still allowed loses no packet.

Both directions of a connection have to pass the same part of a distributed router.  Those to and
from outside do: the part that translates them.  Those between two networks pass the local part of
the sender's host, so they are not filtered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from attrs import frozen

from netfw.drivers.l3_extension import ExtendedRouter
from netfw.drivers.values.pipeline_grant import Grant
from netfw.drivers.values.router_contribution import (
    RouterContribution,
    RouterRule,
    RuleChain,
    RuleTable,
)
from netfw.drivers.values.router_values import RouterPort, RouterState
from netfw.model import l3_extensions
from netfw.model.router_firewall import (
    FILTERED_PORTS,
    FirewallAction,
    FirewallGroup,
    FirewallRule,
)
from netfw.model.security_group import Direction
from netfw.model.values.address import IpNetwork
from netfw.model.values.ids import PortId, RouterId
from netfw.model.values.port_range import PortRange
from netfw.model.values.protocol import ICMP, ICMPV6, NAMES, TCP
from netfw_drivers.l3_extensions.optionless import OptionlessExtension

FAMILIES = (4, 6)
_NAMED = FILTERED_PORTS | {ICMP, ICMPV6}
"""Protocols that iptables knows by their names on every host."""
_REFUSALS = {4: "icmp-port-unreachable", 6: "icmp6-port-unreachable"}


@frozen(kw_only=True)
class PortPair:
    """The ports between which the packets of an interface pass a part of a router."""

    inner: PortId
    outer: PortId | None = None
    """``None``: all others."""


class RouterFirewallExtension(OptionlessExtension):
    """Filters by the firewall groups of the router's interfaces."""

    NAME: ClassVar[str] = l3_extensions.ROUTER_FIREWALL

    def contribute(
        self, key: RouterId, value: ExtendedRouter, grant: Grant
    ) -> RouterContribution | None:
        groups = sorted(value.router.firewall_groups, key=lambda each: each.id)
        pairs = {group.id: tuple(find_pairs(group, value.state)) for group in groups}
        present = [group for group in groups if pairs[group.id]]
        if not present:
            return None
        rules = [each for version in FAMILIES for each in _pass_replies(version)]
        for direction in (Direction.EGRESS, Direction.INGRESS):
            for group in present:
                for pair in pairs[group.id]:
                    rules += _enter(group, direction, pair)
        for group in present:
            for direction in (Direction.EGRESS, Direction.INGRESS):
                rules += _chain(group, direction)
        return RouterContribution(owner=grant.owner, rules=tuple(rules))


def find_pairs(group: FirewallGroup, state: RouterState) -> Iterator[PortPair]:
    """Yield the ports of *group* that parts of the router on this host have."""
    if state.full is not None:
        present = {each.id for each in state.full.interfaces}
        yield from (PortPair(inner=port) for port in group.ports if port in present)
    if state.local is not None and state.local.gateway_port is not None:
        for interface in _members(group, state.local.interfaces):
            yield PortPair(inner=interface.id, outer=state.local.gateway_port)
    if state.local is not None and state.central is not None:
        for interface in _members(group, state.local.interfaces):
            for port in state.central.ports:
                if port.network == interface.network and _prefixes(port) & _prefixes(interface):
                    yield PortPair(inner=port.id)


def _prefixes(port: RouterPort) -> set[IpNetwork]:
    return {each.network for each in port.addresses}


def _members(group: FirewallGroup, interfaces: tuple[RouterPort, ...]) -> list[RouterPort]:
    return [each for each in interfaces if each.id in group.ports]


def _pass_replies(version: int) -> Iterator[RouterRule]:
    for state in ("RELATED", "ESTABLISHED --ctdir REPLY"):
        match = ("-m", "conntrack", "--ctstate", *state.split())
        yield _rule(version, *match, "-j", "RETURN")


def _enter(group: FirewallGroup, direction: Direction, pair: PortPair) -> Iterator[RouterRule]:
    """Yield the rules by which packets of one direction enter the chain of a group."""
    is_egress = direction is Direction.EGRESS
    for version in FAMILIES:
        yield _rule(
            version,
            in_port=pair.inner if is_egress else pair.outer,
            out_port=pair.outer if is_egress else pair.inner,
            enter=_chain_name(group, direction),
        )


def _chain(group: FirewallGroup, direction: Direction) -> Iterator[RouterRule]:
    """Yield the rules of the chain of a group in one direction."""
    name = _chain_name(group, direction)
    rules = group.egress if direction is Direction.EGRESS else group.ingress
    for version in FAMILIES:
        invalid = ("-m", "conntrack", "--ctstate", "INVALID")
        yield _rule(version, *invalid, "-j", "DROP", subchain=name)
        for rule in rules:
            if rule.ip_version == version:
                yield _rule(version, *_match(rule), *_target(rule), subchain=name)
        yield _rule(version, "-j", "DROP", subchain=name)


def _chain_name(group: FirewallGroup, direction: Direction) -> str:
    return f"{direction}-{group.id}"


def _rule(version: int, *words: str, **values: Any) -> RouterRule:
    return RouterRule(
        table=RuleTable.FILTER,
        chain=RuleChain.FORWARD,
        ip_version=version,
        words=words,
        local=True,
        **values,
    )


def _match(rule: FirewallRule) -> Iterator[str]:
    """Yield the match of a rule, as ``iptables-save`` prints it."""
    for option, prefix in (("-s", rule.source), ("-d", rule.destination)):
        if prefix is not None and prefix.prefixlen:
            yield from (option, str(prefix))
    if rule.protocol is None:
        return
    is_icmp = rule.ip_version == 6 and rule.protocol == ICMP
    number = ICMPV6 if is_icmp else rule.protocol
    protocol = NAMES[number] if number in _NAMED else str(number)
    yield from ("-p", protocol)
    ends = (("--sport", rule.source_ports), ("--dport", rule.destination_ports))
    if any(ports is not None for _, ports in ends):
        yield from ("-m", protocol)
    for option, ports in ends:
        if ports is not None:
            yield from (option, _render_ports(ports))


def _render_ports(ports: PortRange) -> str:
    return str(ports) if len(ports) > 1 else str(ports.first)


def _target(rule: FirewallRule) -> tuple[str, ...]:
    match rule.action:
        case FirewallAction.ALLOW:
            return ("-j", "RETURN")
        case FirewallAction.DENY:
            return ("-j", "DROP")
        case FirewallAction.REJECT:
            answer = "tcp-reset" if rule.protocol == TCP else _REFUSALS[rule.ip_version]
            return ("-j", "REJECT", "--reject-with", answer)
