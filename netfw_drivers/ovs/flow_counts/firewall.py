"""Numbers of flows of the firewall, counted on examples.  Pure; for the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any
from uuid import UUID

from netfw.drivers.firewall import FilteredPort, FirewallKey, FirewallValue, Member, Rules
from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.keys import GroupKey, PortKey
from netfw.model.security_group import Direction, SecurityGroupRule
from netfw.model.values.address import Mac
from netfw.model.values.ids import NetworkId, PortId, SecurityGroupId, SecurityGroupRuleId
from netfw.model.values.protocol import TCP
from netfw_drivers.ovs.firewall.plan.changes import FirewallChanges
from netfw_drivers.ovs.firewall.plan.flows import static_flows
from netfw_drivers.ovs.firewall.plan.state import FirewallState

Wanted = dict[FirewallKey, FirewallValue]
_MAC = Mac("fa:16:3e:00:00:01")
_PREFIXES = "192.0.2.1", "2001:db8::1", "fe80::f816:3eff:fe00:1"
_ID = UUID(int=0)
_IN, _OUT = Direction.INGRESS, Direction.EGRESS


def counts() -> Iterator[tuple[str, int]]:
    """Yield each counted object, and its number of flows."""
    inward, outward = _rule(_IN), _rule(_OUT)
    ports = {"protocol": TCP, "port_min": 80}
    any_tcp = _rule(_IN, protocol=TCP)
    web, more_web = _rule(_IN, **ports, port_max=80), _rule(_IN, **ports, port_max=90)
    referring = _group(1, _rule(_IN, remote_group_id=_group_id(2)))
    base = {**_port(1, 1), **_group(1, inward)}
    guests = {**base, **_group(1, inward, outward)}
    set_of_groups = _total({**guests, **_port(2, 1, 9)}) - _total({**guests, **_port(2, 1)})
    alike = {**base, **_group(3, outward)}
    way = _total({**alike, **_group(2, outward)}) - _total({**alike, **_group(2)})
    first = {**base, **referring, **_member(1)}
    yield "the firewall, before any port", len(list(static_flows()))
    yield "a filtered port with two addresses and its link-local one", _more(base, _port(2, 1))
    yield "a trusted port", _more(base, _port(2, trusted=True))
    yield "a set of groups that some ports are in, which allow something both ways", set_of_groups
    yield "a group", _more(base, _group(2))
    yield "what a group allows in one direction to all addresses, or to one other group", way
    yield "a rule without ports, of any number of groups", _more(base, _group(1, inward, any_tcp))
    yield "a rule for one port, of any number of groups", _more(base, _group(1, inward, web))
    yield "a rule for ports 80 to 90, likewise", _more(base, _group(1, inward, more_web))
    yield "a group that others refer to", _more({**base, **referring}, _member(1)) - 1
    yield "its member, for each direction that rules refer to it in", _more(first, _member(2))


def _more(before: Wanted, added: Wanted) -> int:
    return _total({**before, **added}) - _total(before)


def _total(wanted: Wanted) -> int:
    draft = FirewallChanges(FirewallState())
    for key, value in wanted.items():
        match key, value:
            case PortKey(port), FilteredPort():
                draft.put_port(key, value, port.int)
            case GroupKey(), Rules():
                draft.put_group(key, value)
            case Member(), _:
                draft.put_member(key)
    put, _ = draft.groups()
    return sum(len(list(group.make())) for group in put.values())


def _group_id(number: int) -> SecurityGroupId:
    return SecurityGroupId(UUID(int=number))


def _port(number: int, *groups: int, trusted: bool = False) -> Wanted:
    port = FilteredPort(
        network=NetworkId(_ID),
        device="tap",
        mac=_MAC,
        sources=frozenset(AllowedSource(_MAC, ip_network(prefix)) for prefix in _PREFIXES),
        groups=frozenset(map(_group_id, groups)),
        trusted=trusted,
    )
    return {PortKey(PortId(UUID(int=number))): port}


def _group(number: int, *rules: SecurityGroupRule) -> Wanted:
    return {GroupKey(_group_id(number)): Rules(frozenset(rules))}


def _rule(direction: Direction, **more: Any) -> SecurityGroupRule:
    return SecurityGroupRule(
        id=SecurityGroupRuleId(_ID),
        security_group_id=_group_id(1),
        direction=direction,
        **more,
    )


def _member(number: int) -> Wanted:
    member = Member(GroupKey(_group_id(2)), ip_network(f"192.0.2.{number}"))
    return {member: member}
