"""Which ports are in which groups, and which groups refer to which, after an update.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from attrs import define, field

from netfw.linux.bridge_firewall.policy_index import PolicyIndex
from netfw.linux.bridge_firewall.remote_groups import Remote
from netfw.linux.bridge_firewall.requested_changes import RequestedChanges
from netfw.linux.bridge_firewall.values import ZoneChange, plan_zones
from netfw.model.values.ids import PortId, SecurityGroupId


class UpdatedRelations:
    """Relations of ports and groups as an update leaves them."""

    def __init__(
        self, requested: RequestedChanges[Any, Any, Any], index: PolicyIndex[Any], *, thorough: bool
    ) -> None:
        self._requested, self._index, self._thorough = requested, index, thorough
        self.moved = requested.ports.keys() | requested.gone_ports
        """Ports that the update puts or removes."""
        self._redone = requested.groups.keys() | requested.gone_groups
        self.joins: dict[SecurityGroupId, set[PortId]] = defaultdict(set)
        """Ports of the update by group."""
        self._refers: dict[Remote, set[SecurityGroupId]] = defaultdict(set)
        for id, wanted in requested.ports.items():
            for group in wanted.port.groups if not wanted.port.trusted else ():
                self.joins[group].add(id)
        for group, put in requested.groups.items():
            for remote in put.remotes:
                self._refers[remote].add(group)

    @property
    def staying_ports(self) -> frozenset[PortId]:
        """Ports outside of this update."""
        return frozenset(self._index.ports.keys() - self.moved)

    @property
    def staying_groups(self) -> Iterator[SecurityGroupId]:
        """Groups outside of this update that still have chains."""
        for group in self._index.groups.keys() - self._redone:
            if self._index.groups[group] or self.users(group):
                yield group

    @property
    def named_groups(self) -> Iterator[SecurityGroupId]:
        """Groups that are not put any more, and that ports of this update name or named."""
        requested, index = self._requested, self._index
        former = (index.ports[id].groups for id in self.moved if id in index.ports)
        left = {group for groups in former for group in groups}
        for id in (requested.gone_groups | left | self.joins.keys()) - requested.groups.keys():
            if not index.groups.get(id) or id in requested.gone_groups:
                yield id

    @property
    def touched_remotes(self) -> set[Remote]:
        """Groups whose members change, or that rules begin or cease to refer to."""
        touched = set(self._requested.members) | set(self._refers)
        for group in self._redone:
            touched = touched.union(*self._index.refers.get(group, {}).values())
        return touched

    def users(self, group: SecurityGroupId) -> set[PortId]:
        """Return the ports that will be in *group*."""
        return (self._index.users.get(group, set()) - self.moved) | self.joins[group]

    def referrers(self, remote: Remote) -> set[SecurityGroupId]:
        """Return the groups whose rules will refer to *remote*."""
        return (self._index.referrers.get(remote, set()) - self._redone) | self._refers[remote]

    def plan_zones(self, *, private: bool) -> ZoneChange:
        """Return the zones of the bridges that this update touches."""
        requested = self._requested
        return plan_zones(
            requested.ports,
            requested.gone_ports,
            self._index,
            private=private,
            thorough=self._thorough,
        )


@define
class Losses:
    """Ports, groups and remote groups whose rules or members become fewer."""

    ports: set[PortId] = field(factory=set)
    groups: set[SecurityGroupId] = field(factory=set)
    remotes: set[Remote] = field(factory=set)

    def affected_ports(
        self,
        requested: RequestedChanges[Any, Any, Any],
        index: PolicyIndex[Any],
        relations: UpdatedRelations,
    ) -> frozenset[PortId]:
        """Return the ports that lose permissions."""
        present, ports = index.ports, set(self.ports)
        for id, wanted in requested.ports.items():
            if not wanted.port.trusted and (id not in present or present[id].trusted):
                ports.add(id)
        groups = self.groups.union(*(relations.referrers(remote) for remote in self.remotes))
        return frozenset(ports.union(*(relations.users(group) for group in groups)))
