"""Which rule allows a new connection of a port, or what each rule lacks for it.  Pure.

It evaluates the desired state, so that the answer holds for every firewall driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Protocol

from attrs import frozen

from netfw.drivers.support.port_filtering import is_unfiltered, members_of
from netfw.drivers.values.keys import AddressGroupKey, GroupKey
from netfw.model.port import Port
from netfw.model.resource import Resource
from netfw.model.security_group import Direction, SecurityGroupRule
from netfw.model.values.address import IpAddress, IpNetwork
from netfw.model.values.ids import SecurityGroupId
from netfw.model.values.protocol import ICMP, ICMPV6, NAMES, PORTED

Members = Mapping[GroupKey | AddressGroupKey, tuple[IpNetwork, ...]]


class DesiredRules(Protocol):
    """The rules of groups, and the ports and address groups that are their members."""

    def rules(self, group: SecurityGroupId) -> Iterable[SecurityGroupRule]:
        """Return the rules of *group*."""

    def values(self) -> Iterable[Resource]:
        """Return all resources, members of groups among them."""


@frozen(kw_only=True)
class NewConnection:
    """A connection that a port opens (egress), or that another host opens to it (ingress)."""

    direction: Direction
    remote: IpAddress
    protocol: int
    port: int | None = None
    """The destination port, or the ICMP type; ``None``: the protocol has none, or any."""
    code: int | None = None
    """The ICMP code."""

    def __str__(self) -> str:
        ports = "" if self.port is None else f" {self.port}"
        end = "from" if self.direction is Direction.INGRESS else "to"
        return (
            f"{self.direction} {NAMES.get(self.protocol, self.protocol)}{ports} {end} {self.remote}"
        )


@frozen(kw_only=True)
class RuleExplanation:
    """The answer: whether the connection is allowed, and a line for each reason."""

    allowed: bool
    lines: tuple[str, ...]


def explain_connection(
    port: Port, connection: NewConnection, state: DesiredRules
) -> RuleExplanation:
    """Return whether the groups of *port* allow *connection*, and why."""
    if is_unfiltered(port):
        return _answer(True, [f"port {port.id} is not filtered: it is trusted, or has no security"])
    if not port.security_groups:
        text = f"port {port.id} is in no security group, and so nothing is allowed"
        return _answer(False, [text])
    rules = [rule for group in sorted(port.security_groups) for rule in state.rules(group)]
    members = _members(state, rules)
    lacking = {rule: _lack(rule, connection, members) for rule in rules}
    if found := [rule for rule, lack in lacking.items() if not lack]:
        return _answer(True, [f"allowed by {_name(rule)}" for rule in found])
    text = f"no rule allows {connection}: port {port.id} is in {_groups(port.security_groups)}"
    return _answer(False, [text, *(f"{_name(rule)}: {lack}" for rule, lack in lacking.items())])


def with_group_names(lines: Iterable[str], names: Mapping[str, str]) -> list[str]:
    """Add the names of groups to their ids in *lines*."""
    named = {id: f"{id} ({name})" for id, name in names.items() if name}
    if not named:
        return list(lines)
    ids = re.compile("|".join(map(re.escape, named)))
    return [ids.sub(lambda found: named[found[0]], line) for line in lines]


def _answer(allowed: bool, lines: Iterable[str]) -> RuleExplanation:
    return RuleExplanation(allowed=allowed, lines=tuple(lines))


def _name(rule: SecurityGroupRule) -> str:
    return f"rule {rule.id} of group {rule.security_group_id}"


def _groups(ids: Iterable[SecurityGroupId]) -> str:
    return "security groups " + ", ".join(sorted(map(str, ids)))


def _members(state: DesiredRules, rules: Iterable[SecurityGroupRule]) -> Members:
    """Return the addresses of the groups that *rules* name."""
    wanted = {remote: list[IpNetwork]() for rule in rules for remote in _remotes(rule)}
    for resource in state.values() if wanted else ():
        for member in members_of(resource):
            if member.group in wanted:
                wanted[member.group].append(member.prefix)
    return {group: tuple(prefixes) for group, prefixes in wanted.items()}


def _remotes(rule: SecurityGroupRule) -> Iterator[GroupKey | AddressGroupKey]:
    if rule.remote_group_id is not None:
        yield GroupKey(rule.remote_group_id)
    if rule.remote_address_group_id is not None:
        yield AddressGroupKey(rule.remote_address_group_id)


def _lack(rule: SecurityGroupRule, connection: NewConnection, members: Members) -> str:
    """Return what *rule* lacks to allow *connection*; empty: it does."""
    return next(
        chain(_traffic_lacks(rule, connection), _remote_lacks(rule, connection, members)), ""
    )


def _traffic_lacks(rule: SecurityGroupRule, connection: NewConnection) -> Iterator[str]:
    if rule.direction is not connection.direction:
        yield f"it is for {rule.direction}"
    if rule.ethertype.ip_version != connection.remote.version:
        yield f"it is for {rule.ethertype}"
    if rule.ip_protocol not in (None, connection.protocol):
        yield f"it is for protocol {NAMES.get(rule.ip_protocol or 0, rule.ip_protocol)}"
    if rule.protocol is not None and not _has_ports(rule, connection):
        high = "" if rule.port_max is None else f":{rule.port_max}"
        what = "type and code" if rule.icmp_type is not None else "ports"
        yield f"it is for {what} {rule.port_min}{high}"


def _remote_lacks(
    rule: SecurityGroupRule, connection: NewConnection, members: Members
) -> Iterator[str]:
    remote = connection.remote
    if rule.remote_prefix is not None and remote not in rule.remote_prefix:
        yield f"{remote} is not in {rule.remote_prefix}"
    for group in _remotes(rule):
        if not any(remote in prefix for prefix in members[group]):
            yield f"{remote} is not in {group}, which has {len(members[group])} addresses"


def _has_ports(rule: SecurityGroupRule, connection: NewConnection) -> bool:
    if rule.port_min is None:
        return True
    if rule.ip_protocol in (ICMP, ICMPV6):
        return rule.port_min == connection.port and rule.port_max in (None, connection.code)
    if rule.protocol not in PORTED or rule.port_max is None or connection.port is None:
        return False
    return rule.port_min <= connection.port <= rule.port_max
