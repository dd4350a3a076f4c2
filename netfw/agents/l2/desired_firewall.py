"""The desired state of the firewall of this host.  Pure: values in, values out.

It holds the ports of this host, the groups that they and prepared ports are in, and the members of
the groups that those refer to.  It is updated incrementally: a member of a large group costs one
member.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from netfw.agents.common.changed_values import ChangedValues
from netfw.agents.common.resource_index import ResourceChange
from netfw.agents.l2.port_wiring import sources
from netfw.agents.l2.resource_index import L2ResourceIndex
from netfw.drivers.firewall import (
    FilteredPort,
    FirewallEntry,
    FirewallKey,
    FirewallValue,
    Member,
    Rules,
)
from netfw.drivers.support.port_filtering import is_unfiltered, members_of
from netfw.drivers.values.keys import AddressGroupKey, GroupKey, PortKey
from netfw.drivers.values.switch_values import SwitchDevice
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref
from netfw.model.security_group import SecurityGroup, SecurityGroupRule
from netfw.model.values.ids import PortId, SecurityGroupId

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Remote = GroupKey | AddressGroupKey


class DesiredFirewall:
    """The desired state of one firewall, computed from the resources in *index*."""

    def __init__(self, index: L2ResourceIndex) -> None:
        self._index = index
        self._users: dict[SecurityGroupId, set[PortId]] = {}
        self._uses: dict[PortId, frozenset[SecurityGroupId]] = {}
        self._referrers: dict[Remote, set[SecurityGroupId]] = {}
        self._refers: dict[SecurityGroupId, frozenset[Remote]] = {}
        self._members: dict[Remote, dict[Member, set[Ref]]] = {}
        self._values: ChangedValues[FirewallKey, FirewallValue] = ChangedValues()

    @property
    def values(self) -> Mapping[FirewallKey, FirewallValue]:
        """Every desired value of the firewall."""
        return self._values

    def take_changed(self) -> frozenset[FirewallKey]:
        """Return the keys whose values changed since the last call."""
        return self._values.take_changed()

    def apply(self, changes: Iterable[ResourceChange]) -> None:
        """Update the values after *changes*, which the index already holds."""
        groups: set[SecurityGroupId] = set()
        for change in changes:
            if change.key.kind in (Kind.PORT, Kind.ADDRESS_GROUP):
                before, after = members_of(change.before), members_of(change.after)
                self._update_members(change.key, before, after)
            elif change.key.kind is Kind.SECURITY_GROUP:
                groups.add(SecurityGroupId(change.key.id))
            for resource in (change.before, change.after):
                if isinstance(resource, SecurityGroupRule):
                    groups.add(resource.security_group_id)
        for group in groups:
            self._update_group(group)

    def filter(self, id: PortId, port: Port | None, device: SwitchDevice | None) -> None:
        """Filter a port of this host that goes live on *device*; ``None``: it is dead or gone."""
        key = PortKey(id)
        value = None if port is None or device is None else make_filtered_port(port, device)
        if value is None:
            self._drop(key)
        else:
            self._put((key, value))
        prepared = self._index.port(id)
        if value is not None:
            self._use(id, value.groups)
        elif prepared is not None and self._index.is_prepared(prepared):
            self._use(id, prepared.security_groups)  # its own filter comes when it is activated
        else:
            self._use(id, frozenset())

    def _use(self, id: PortId, groups: frozenset[SecurityGroupId]) -> None:
        """Record the groups that a port of this host needs."""
        former = self._uses.pop(id, frozenset())
        if groups:
            self._uses[id] = groups
        for group in former - groups:
            _discard(self._users, group, id)
        for group in groups - former:
            self._users.setdefault(group, set()).add(id)
        for group in former ^ groups:
            self._update_group(group)

    def _update_group(self, id: SecurityGroupId) -> None:
        group = self._index.get(Ref(Kind.SECURITY_GROUP, id))
        value, refers = None, frozenset[Remote]()
        if id in self._users and isinstance(group, SecurityGroup):
            rules = frozenset(self._index.rules(id))
            value = Rules(rules, group.stateful)
            refers = frozenset(remote for rule in rules for remote in _remotes(rule))
        if value is None:
            self._drop(GroupKey(id))
        else:
            self._put((GroupKey(id), value))
        former = self._refers.pop(id, frozenset())
        if refers:
            self._refers[id] = refers
        for remote in former - refers:
            _discard(self._referrers, remote, id)
        for remote in refers - former:
            self._referrers.setdefault(remote, set()).add(id)
        for remote in former ^ refers:
            for member in self._members.get(remote, {}):
                self._update_member(member)

    def _update_members(
        self, owner: Ref, before: frozenset[Member], after: frozenset[Member]
    ) -> None:
        for member in before - after:
            members = self._members[member.group]
            _discard(members, member, owner)
            if not members:
                del self._members[member.group]
        for member in after - before:
            self._members.setdefault(member.group, {}).setdefault(member, set()).add(owner)
        for member in before ^ after:
            self._update_member(member)

    def _update_member(self, member: Member) -> None:
        wanted = member.group in self._referrers and member in self._members.get(member.group, {})
        if wanted:
            self._put((member, member))
        else:
            self._drop(member)

    def _put(self, entry: FirewallEntry) -> None:
        key, value = entry
        self._values.set(key, value)

    def _drop(self, key: FirewallKey) -> None:
        self._values.set(key, None)


def make_filtered_port(port: Port, device: SwitchDevice) -> FilteredPort:
    """Return the filter of *port* on *device*."""
    return FilteredPort(
        network=port.network_id,
        device=device.name,
        mac=port.mac,
        sources=sources(port),
        groups=port.security_groups,
        trusted=is_unfiltered(port),
    )


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
