"""The rules that filter a port, and the members of groups, as far as a requester sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

from attrs import field, frozen

from netfw.errors import Forbidden
from netfw.model.port import Port
from netfw.model.resource import Kind, Resource
from netfw.model.security_group import Direction, SecurityGroupRule
from netfw.model.values.ids import SecurityGroupId
from netfw.model.wire import CODECS, parse
from netfw.server.api.live.own_api import MOST, Body, OwnApi

_OF_PORT: Final = (
    "id",
    "name",
    "network_id",
    "mac_address",
    "fixed_ips",
    "allowed_address_pairs",
    "security_groups",
    "port_security_enabled",
    "device_id",
    "device_owner",
    "admin_state_up",
)
_OF_ADDRESS_GROUP: Final = ("id", "name", "addresses")
MOST_REMOTE_GROUPS: Final = 20
"""Limit of the groups whose ports are read."""


def parse_port(body: Body) -> Port:
    """Return what filters look at, of a port as the API shows it."""
    return cast(Port, parse(Kind.PORT, _only(body, _OF_PORT)))


@frozen(kw_only=True)
class VisibleRules:
    """Rules of groups, and members of the groups that they name."""

    by_group: Mapping[SecurityGroupId, tuple[SecurityGroupRule, ...]]
    members: tuple[Resource, ...] = ()
    names: Mapping[str, str] = field(factory=dict)
    """Names of groups by id."""
    gaps: tuple[str, ...] = ()
    """What the requester does not see: a rule may be missing."""

    def rules(self, group: SecurityGroupId) -> Iterable[SecurityGroupRule]:
        """Return the rules of *group*."""
        return self.by_group.get(group, ())

    def values(self) -> Iterable[Resource]:
        """Return the members of groups."""
        return self.members

    @classmethod
    def read(cls, api: OwnApi, port: Port, other: Port, direction: Direction) -> VisibleRules:
        """Read the rules of *port*, with the members that decide about the port *other*."""
        gaps: list[str] = []
        by_group, names = {}, {}
        for id in port.security_groups:
            group = _shown(api, "security-groups", str(id))
            if group is None:
                gaps.append(f"security group {id} is not shown to you, and may have a rule for it")
                continue
            names[str(id)] = str(group.get("name") or "")
            found = api.page("security-group-rules", MOST, security_group_id=str(id))
            if found.has_more:
                gaps.append(_cut_off(id, "rules", len(found.rows)))
            by_group[id] = tuple(map(_parse_rule, found.rows))
        rules = [rule for each in by_group.values() for rule in each]
        deciding = [rule for rule in rules if rule.direction is direction]
        members = (
            other,
            *_ports(api, _remote_groups(deciding) - other.security_groups, gaps),
            *_address_groups(api, deciding, gaps),
        )
        return cls(by_group=by_group, members=members, names=names, gaps=tuple(gaps))


def _cut_off(group: SecurityGroupId, what: str, count: int) -> str:
    return f"{what} of security group {group} beyond the first {count} are not read"


def _remote_groups(rules: Iterable[SecurityGroupRule]) -> frozenset[SecurityGroupId]:
    return frozenset(rule.remote_group_id for rule in rules if rule.remote_group_id is not None)


def _ports(api: OwnApi, groups: frozenset[SecurityGroupId], gaps: list[str]) -> Iterator[Resource]:
    """Return the ports of *groups*, one of which may have an address of the other port."""
    ordered = sorted(groups)
    for id in ordered[:MOST_REMOTE_GROUPS]:
        found = api.page("ports", MOST, security_groups=str(id))
        if found.has_more:
            gaps.append(_cut_off(id, "ports", len(found.rows)))
        yield from map(parse_port, found.rows)
    too_many = f"are not read: the rules name more than {MOST_REMOTE_GROUPS} groups"
    gaps.extend(f"ports of security group {id} {too_many}" for id in ordered[MOST_REMOTE_GROUPS:])


def _address_groups(
    api: OwnApi, rules: Iterable[SecurityGroupRule], gaps: list[str]
) -> Iterator[Resource]:
    ids = {rule.remote_address_group_id for rule in rules} - {None}
    for id in sorted(map(str, ids)):
        body = _shown(api, "address-groups", id)
        if body is None:
            gaps.append(f"address group {id} is not shown to you, and may have the address")
        else:
            yield parse(Kind.ADDRESS_GROUP, _only(body, _OF_ADDRESS_GROUP))


def _shown(api: OwnApi, collection: str, id: str) -> Body | None:
    try:
        return api.show(collection, id)
    except Forbidden:
        return None


def _parse_rule(body: Body) -> SecurityGroupRule:
    names = CODECS[Kind.SECURITY_GROUP_RULE].names
    return cast(SecurityGroupRule, parse(Kind.SECURITY_GROUP_RULE, _only(body, names)))


def _only(body: Body, names: Iterable[str]) -> dict[str, object]:
    return {name: body[name] for name in names if name in body}
