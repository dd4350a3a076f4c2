"""DefaultSecurityGroupRuleHandler: the rules that new security groups get.

They are templates: a group gets copies, and keeps them when the templates change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any, ClassVar, cast
from uuid import UUID, uuid4

from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.errors import Conflict, NotSupported
from netfw.errors.default_rules import DefaultSecurityGroupRuleExists, DuplicateDefaultSgRuleInPost
from netfw.model.resource import Kind, ref
from netfw.model.security_group import (
    PARENT,
    DefaultSecurityGroupRule,
    SecurityGroup,
    SecurityGroupRule,
)
from netfw.model.values.ids import SecurityGroupId, SecurityGroupRuleId
from netfw.server.core.resource_handler import Reader, StoredResourceHandler
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.security_groups.rules import (
    TrafficIdentity,
    describe_rule,
    parse_rule,
    requested_spelling,
    traffic_identity,
    with_stored_spelling,
)
from netfw.server.security_groups.unenforceable_rules import check_rules

MAX_DEFAULT_RULES = 200
"""Default rules in all: each new group gets copies of them."""
TEMPLATES = {"used_in_default_sg": True, "used_in_non_default_sg": False}
"""The two sets of rules, by the attribute of those in it: whether it is of default groups."""


class DefaultSecurityGroupRuleHandler(StoredResourceHandler[DefaultSecurityGroupRule]):
    """Rules of new groups, visible to every project; they are created and deleted only."""

    name = "default_security_group_rule"
    kind = Kind.DEFAULT_SECURITY_GROUP_RULE
    quota: ClassVar[str | None] = None

    def do_create(
        self, unit: UnitOfWork, bodies: Sequence[Body]
    ) -> tuple[DefaultSecurityGroupRule, ...]:
        parsed = [parse_rule(self.kind, body) for body in bodies]
        rules = cast("list[DefaultSecurityGroupRule]", parsed)
        check_rules(unit, rules)
        _lock_remotes(unit, rules)
        _refuse_repeated(unit, rules)
        for rule, body in zip(rules, bodies, strict=True):
            if words := requested_spelling(rule, body):
                unit.set_extra(ref(rule), words)
        return unit.insert(*rules)

    def do_update(
        self, unit: UnitOfWork, before: DefaultSecurityGroupRule, body: Body
    ) -> DefaultSecurityGroupRule:
        raise NotSupported("a default rule cannot be changed; delete it, create another one")

    def do_delete(self, unit: UnitOfWork, before: DefaultSecurityGroupRule) -> None:
        unit.delete(before)

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        return super().find(reader, requester.elevated(), with_stored_spelling(query))

    def show(self, reader: Reader, requester: RequestContext, id: str) -> Body:
        return super().show(reader, requester.elevated(), id)

    def decorate(
        self, reader: Reader, requester: RequestContext, bodies: Sequence[MutableMapping[str, Any]]
    ) -> None:
        """Remove the project, which there is none of, and attributes of rules of groups."""
        for body in bodies:
            for name in ("project_id", "tenant_id", "tags", "normalized_cidr"):
                body.pop(name, None)


def copy_default_rules(
    unit: UnitOfWork, groups: Iterable[SecurityGroup], *, is_default: bool
) -> tuple[SecurityGroupRule, ...]:
    """Return the rules of new *groups*: copies of the default rules.

    *is_default*: they are the default groups of their projects.
    """
    attribute = next(name for name, of_default in TEMPLATES.items() if of_default is is_default)
    templates = _find(unit, **{attribute: True})
    return tuple(rule for group in groups for rule in _copies(templates, group))


def default_rules_naming(
    unit: UnitOfWork, group: SecurityGroupId
) -> tuple[DefaultSecurityGroupRule, ...]:
    """Return the default rules whose remote group is *group*."""
    return _find(unit, remote_group_id=str(group))


def _copies(
    templates: Iterable[DefaultSecurityGroupRule], group: SecurityGroup
) -> Iterator[SecurityGroupRule]:
    """Yield the rules of *group*, each once: equal templates may have been created at once."""
    present: set[TrafficIdentity] = set()
    for template in templates:
        rule = _copy(template, group)
        if traffic_identity(rule) not in present:
            present.add(traffic_identity(rule))
            yield rule


def _copy(template: DefaultSecurityGroupRule, group: SecurityGroup) -> SecurityGroupRule:
    remote = group.id if template.remote_group_id == PARENT else template.remote_group_id
    return SecurityGroupRule(
        id=SecurityGroupRuleId(uuid4()),
        project_id=group.project_id,
        security_group_id=group.id,
        direction=template.direction,
        ethertype=template.ethertype,
        protocol=template.protocol,
        port_min=template.port_min,
        port_max=template.port_max,
        remote_prefix=template.remote_prefix,
        remote_group_id=cast("SecurityGroupId | None", remote),
        remote_address_group_id=template.remote_address_group_id,
    )


def _find(unit: UnitOfWork, **filters: str | bool) -> tuple[DefaultSecurityGroupRule, ...]:
    query = Query(filters={name: (value,) for name, value in filters.items()})
    rows = unit.tx.resources.find(Kind.DEFAULT_SECURITY_GROUP_RULE, query)
    return tuple(cast(DefaultSecurityGroupRule, row.resource()) for row in rows)


def _lock_remotes(unit: UnitOfWork, rules: Sequence[DefaultSecurityGroupRule]) -> None:
    """Lock the groups and address groups that *rules* name.

    :raises NotFound: one does not exist.
    """
    groups = {rule.remote_group_id for rule in rules} - {None, PARENT}
    for group in sorted(cast("set[UUID]", groups)):
        unit.tx.resources.get(Kind.SECURITY_GROUP, group, lock=True)
    for addresses in sorted({each for rule in rules if (each := rule.remote_address_group_id)}):
        unit.tx.resources.get(Kind.ADDRESS_GROUP, addresses, lock=True)


def _refuse_repeated(unit: UnitOfWork, rules: Sequence[DefaultSecurityGroupRule]) -> None:
    """Refuse rules that one of the two templates has already."""
    present = _find(unit)
    if len(present) + len(rules) > MAX_DEFAULT_RULES:
        raise Conflict(f"there cannot be more than {MAX_DEFAULT_RULES} default rules")
    used = {key: rule for rule in present for key in _identities(rule)}
    requested: set[TrafficIdentity] = set()
    for rule in rules:
        for key in _identities(rule):
            if key in used:
                text = f"default rule {used[key].id} is the same: {describe_rule(rule)}"
                raise DefaultSecurityGroupRuleExists(text)
            if key in requested:
                text = f"the request has the same default rule twice: {describe_rule(rule)}"
                raise DuplicateDefaultSgRuleInPost(text)
            requested.add(key)


def _identities(rule: DefaultSecurityGroupRule) -> Iterator[TrafficIdentity]:
    """Yield the key of *rule* in each template that it is part of."""
    for attribute in TEMPLATES:
        if getattr(rule, attribute):
            yield (attribute, *traffic_identity(rule))
