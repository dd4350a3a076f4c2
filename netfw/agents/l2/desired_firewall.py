"""Filters: what the firewall of this host should hold.  Pure: values in, values out.

Of the ports of this host, the groups they are in, and the members of whatever those groups refer
to.  Each change costs what it concerns: a member of a large group costs one member.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from netfw.agents.l2.port_wiring import host_prefix, is_unfiltered, sources
from netfw.drivers.firewall import (
    FilteredPort,
    FirewallEntry,
    FirewallKey,
    FirewallValue,
    Member,
    Rules,
)
from netfw.drivers.keys import AddressGroupKey, GroupKey, PortKey
from netfw.drivers.switch_values import SwitchDevice
from netfw.model.address import IpNetwork, Mac
from netfw.model.ids import AddressGroupId, PortId, SecurityGroupId, SecurityGroupRuleId
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource, ref
from netfw.model.security_group import AddressGroup, SecurityGroup, SecurityGroupRule

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Remote = GroupKey | AddressGroupKey


class DesiredFirewall:
    """The wanted state of one firewall."""

    def __init__(self) -> None:
        self._resources: dict[Ref, Resource] = {}
        self._rules: dict[SecurityGroupId, dict[SecurityGroupRuleId, SecurityGroupRule]] = {}
        self._users: dict[SecurityGroupId, set[PortId]] = {}
        self._referrers: dict[Remote, set[SecurityGroupId]] = {}
        self._refers: dict[SecurityGroupId, frozenset[Remote]] = {}
        self._members: dict[Remote, dict[Member, set[Ref]]] = {}
        self._values: dict[FirewallKey, FirewallValue] = {}
        self._changed: set[FirewallKey] = set()

    @property
    def values(self) -> Mapping[FirewallKey, FirewallValue]:
        """Everything the firewall should hold."""
        return self._values

    def take_changed(self) -> frozenset[FirewallKey]:
        """The keys whose values changed since this was last asked."""
        changed, self._changed = frozenset(self._changed), set()
        return changed

    def learn(self, put: Iterable[Resource] = (), drop: Iterable[Ref] = ()) -> None:
        """Take over what the source says."""
        for key, resource in [*((key, None) for key in drop), *((ref(r), r) for r in put)]:
            former = self._resources.pop(key, None)
            if resource is not None:
                self._resources[key] = resource
            if key.kind in (Kind.PORT, Kind.ADDRESS_GROUP):
                self._redo_members(key, _members(former), _members(resource))
            elif key.kind is Kind.SECURITY_GROUP_RULE:
                self._redo_rule(former, resource)
            elif key.kind is Kind.SECURITY_GROUP:
                self._redo_group(SecurityGroupId(key.id))

    def filter(self, id: PortId, port: Port | None, device: SwitchDevice | None) -> None:
        """A port of this host is to be let live on *device*; or is dead, or gone."""
        key = PortKey(id)
        former = self._values.get(key)
        value = None if port is None or device is None else filtered(port, device)
        if value is None:
            self._drop(key)
        else:
            self._put((key, value))
        before = former.groups if isinstance(former, FilteredPort) else frozenset()
        after = frozenset() if value is None else value.groups
        for group in before - after:
            _discard(self._users, group, id)
        for group in after - before:
            self._users.setdefault(group, set()).add(id)
        for group in before ^ after:
            self._redo_group(group)

    def _redo_rule(self, former: Resource | None, rule: Resource | None) -> None:
        if isinstance(former, SecurityGroupRule):
            del self._rules[former.security_group_id][former.id]
        if isinstance(rule, SecurityGroupRule):
            self._rules.setdefault(rule.security_group_id, {})[rule.id] = rule
        for each in (former, rule):
            if isinstance(each, SecurityGroupRule):
                self._redo_group(each.security_group_id)

    def _redo_group(self, id: SecurityGroupId) -> None:
        group = self._resources.get(Ref(Kind.SECURITY_GROUP, id))
        refers = frozenset[Remote]()
        if id in self._users and isinstance(group, SecurityGroup):
            rules = frozenset(self._rules.get(id, {}).values())
            self._put((GroupKey(id), Rules(rules, group.stateful)))
            refers = frozenset(remote for rule in rules for remote in _remotes(rule))
        else:
            self._drop(GroupKey(id))
        former = self._refers.pop(id, frozenset())
        if refers:
            self._refers[id] = refers
        for remote in former - refers:
            _discard(self._referrers, remote, id)
        for remote in refers - former:
            self._referrers.setdefault(remote, set()).add(id)
        for remote in former ^ refers:
            for member in self._members.get(remote, {}):
                self._redo_member(member)

    def _redo_members(
        self, owner: Ref, before: frozenset[Member], after: frozenset[Member]
    ) -> None:
        for member in before - after:
            _discard(self._members[member.group], member, owner)
        for member in after - before:
            self._members.setdefault(member.group, {}).setdefault(member, set()).add(owner)
        for member in before ^ after:
            self._redo_member(member)

    def _redo_member(self, member: Member) -> None:
        wanted = member.group in self._referrers and member in self._members.get(member.group, {})
        if wanted:
            self._put((member, member))
        else:
            self._drop(member)

    def _put(self, entry: FirewallEntry) -> None:
        key, value = entry
        if self._values.get(key) != value:
            self._values[key] = value
            self._changed.add(key)

    def _drop(self, key: FirewallKey) -> None:
        if self._values.pop(key, None) is not None:
            self._changed.add(key)


def filtered(port: Port, device: SwitchDevice) -> FilteredPort:
    """What may pass *port*."""
    return FilteredPort(
        network=port.network_id,
        device=device.name,
        mac=port.mac,
        sources=sources(port),
        groups=port.security_groups,
        trusted=is_unfiltered(port),
    )


def _members(resource: Resource | None) -> frozenset[Member]:
    """What a port or an address group is, in the eyes of those who refer to it."""
    match resource:
        case Port():
            prefixes: set[tuple[IpNetwork, Mac | None]]
            prefixes = {(host_prefix(fixed.address), None) for fixed in resource.fixed_ips}
            for pair in resource.allowed_address_pairs:
                mac = None if pair.prefix.prefixlen else pair.mac or resource.mac
                prefixes.add((pair.prefix, mac))
            groups = [GroupKey(id) for id in resource.security_groups]
            return frozenset(Member(g, prefix, mac) for g in groups for prefix, mac in prefixes)
        case AddressGroup():
            key = AddressGroupKey(AddressGroupId(resource.id))
            return frozenset(Member(key, prefix) for prefix in resource.addresses)
        case _:
            return frozenset()


def _remotes(rule: SecurityGroupRule) -> Iterable[Remote]:
    if rule.remote_group_id is not None:
        yield GroupKey(rule.remote_group_id)
    if rule.remote_address_group_id is not None:
        yield AddressGroupKey(rule.remote_address_group_id)


def _discard(index: dict[K, set[V]], key: K, value: V) -> None:
    members = index.get(key)
    if members is not None:
        members.discard(value)
        if not members:
            del index[key]
