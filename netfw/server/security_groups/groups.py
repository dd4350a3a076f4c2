"""SecurityGroupHandler, the default group of each project, and the service plugin."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, ClassVar, Self, cast
from uuid import uuid4

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.errors.security_groups import (
    SecurityGroupCannotRemoveDefault,
    SecurityGroupCannotUpdateDefault,
    SecurityGroupConflict,
    SecurityGroupDefaultAlreadyExists,
    SecurityGroupInUse,
)
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref
from netfw.model.security_group import SecurityGroup
from netfw.model.values.ids import SecurityGroupId
from netfw.model.values.text_validation import check_text
from netfw.model.wire import parse, render
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import Reader, StoredResourceHandler
from netfw.server.core.server_context import ServerContext, server_context
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.security_groups.address_groups import AddressGroupHandler
from netfw.server.security_groups.default_rules import (
    DefaultSecurityGroupRuleHandler,
    copy_default_rules,
    default_rules_naming,
)
from netfw.server.security_groups.rules import (
    SecurityGroupRuleHandler,
    add_nulls,
    group_ids,
    rules_of,
)
from netfw.server.security_groups.unenforceable_rules import check_groups

DEFAULT = "default"
"""Name that only a project's default group has."""
NAMED_IN_TEXTS = 3
AT_ONCE = 500
"""Number of groups in one query for their rules."""


def default_group(unit: UnitOfWork, project_id: str) -> SecurityGroupId:
    """Return the group of a project's ports that name none; it is created on first use.

    There is one, however many transactions request it at once. It is counted, but no quota refuses
    it.
    """
    found = unit.tx.default_groups.of(project_id)
    if found is not None:
        return found
    (group,) = unit.insert(
        SecurityGroup(
            id=SecurityGroupId(uuid4()),
            project_id=project_id,
            name=DEFAULT,
            description="Default security group",
        )
    )
    unit.tx.default_groups.set(project_id, group.id)
    rules = unit.insert(*copy_default_rules(unit, (group,), is_default=True))
    unit.count("security_group", (group,), implicit=True)
    unit.count("security_group_rule", rules, implicit=True)
    return group.id


class SecurityGroupHandler(StoredResourceHandler[SecurityGroup]):
    """Security groups; their rules have a handler of their own, and are shown with them."""

    name = "security_group"
    kind = Kind.SECURITY_GROUP
    quota: ClassVar[str | None] = "security_group"

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[SecurityGroup, ...]:
        groups = []
        for body in bodies:
            _refuse_default_name(body)
            known = parse(self.kind, {**body, "id": str(uuid4())})
            groups.append(cast(SecurityGroup, known))
        check_groups(unit, groups)
        stored = unit.insert(*groups)
        rules = unit.insert(*copy_default_rules(unit, stored, is_default=False))
        unit.count("security_group_rule", rules)
        return stored

    def do_update(self, unit: UnitOfWork, before: SecurityGroup, body: Body) -> SecurityGroup:
        after = cast(SecurityGroup, parse(self.kind, {**render(before), **body}))
        if after.name != before.name:
            if before.name == DEFAULT:
                raise SecurityGroupCannotUpdateDefault(
                    f"the default security group keeps its name {DEFAULT!r}"
                )
            _refuse_default_name(body)
        if after.stateful != before.stateful:
            _refuse_used(unit, before, "cannot become stateful or stateless")
            check_groups(unit, [after])
        return unit.update(before, after)

    def do_delete(self, unit: UnitOfWork, before: SecurityGroup) -> None:
        if before.name == DEFAULT and not unit.requester.admin:
            raise SecurityGroupCannotRemoveDefault(
                f"{before.id} is the default security group of its project and stays as long as it"
            )
        _refuse_used(unit, before, "cannot be deleted")
        own = rules_of(unit.tx, security_group_id=(str(before.id),))
        naming = rules_of(unit.tx, remote_group_id=(str(before.id),))
        others = tuple(rule for rule in naming if rule.security_group_id != before.id)
        for rule in (*own, *others):
            unit.delete(rule)
        for default_rule in default_rules_naming(unit, before.id):
            unit.delete(default_rule)
        unit.count("security_group_rule", (*own, *others), gone=True)
        for id in sorted(group_ids(others)):
            row = unit.tx.resources.get(Kind.SECURITY_GROUP, id, lock=True)
            unit.touch(cast(SecurityGroup, row.resource()))
        unit.delete(before)

    def decorate(
        self, reader: Reader, requester: RequestContext, bodies: Sequence[MutableMapping[str, Any]]
    ) -> None:
        rules: dict[str, list[dict[str, Any]]] = {body["id"]: [] for body in bodies}
        ids = tuple(rules)
        for at in range(0, len(ids), AT_ONCE):
            query = Query(filters={"security_group_id": ids[at : at + AT_ONCE]})
            for row in reader.resources.find(Kind.SECURITY_GROUP_RULE, query):
                rule = row.shown
                add_nulls(rule)
                rules[rule["security_group_id"]].append(rule)
        for body in bodies:
            body["security_group_rules"] = rules[body["id"]]


class SecurityGroupsPlugin(HandlerPlugin, ServicePlugin):
    """Service plugin for security groups, their rules, default rules and address groups."""

    VERSION: ClassVar[int] = 2

    def __init__(self, context: ServerContext) -> None:
        handlers = (
            SecurityGroupHandler(),
            SecurityGroupRuleHandler(),
            DefaultSecurityGroupRuleHandler(),
            AddressGroupHandler(),
        )
        super().__init__(context, handlers)
        context.precommit_hooks.append(watch_ports)

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(server_context(host))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("security_groups")

    def find(self, requester: RequestContext, name: str, query: Query) -> tuple[Body, ...]:
        """Return what *query* matches; before groups and rules, create the default group.

        Groups that are named by their ids exist already.
        """
        with_groups = name in (SecurityGroupHandler.name, SecurityGroupRuleHandler.name)
        if with_groups and "id" not in query.filters:
            self._have_default_group(_requested_project(requester, query), requester)
        return super().find(requester, name, query)

    def _have_default_group(self, project: str, requester: RequestContext) -> None:
        if project and self.context.read(lambda view: view.default_groups.of(project)) is None:
            self.context.run(requester.elevated(), lambda unit: default_group(unit, project))


def watch_ports(unit: UnitOfWork, change: Change) -> None:
    """Refuse a port that is in stateful and in stateless groups.

    :raises Conflict: naming the groups.
    """
    port = change.after
    if not isinstance(port, Port) or len(port.security_groups) < 2:
        return
    if isinstance(change.before, Port) and change.before.security_groups >= port.security_groups:
        return
    refs = [Ref(Kind.SECURITY_GROUP, id) for id in port.security_groups]
    groups = {row.body["id"]: row.body["stateful"] for row in unit.tx.resources.present(refs)}
    if len(set(groups.values())) > 1:
        stateless = sorted(id for id, stateful in groups.items() if not stateful)
        raise SecurityGroupConflict(
            f"port {port.id} cannot be in stateless security groups ({', '.join(stateless)}) and "
            "in stateful ones at the same time"
        )


def _requested_project(requester: RequestContext, query: Query) -> str:
    """Return the project whose groups are requested: one that an admin names, else the
    requester's."""
    named = query.filters.get("project_id") or query.filters.get("tenant_id") or ()
    if requester.admin and len(named) == 1:
        return _project_or_empty(str(named[0] or ""))
    return requester.project_id


def _project_or_empty(text: str) -> str:
    """Return *text*, or the empty text if it can name no project."""
    try:
        check_text(text)
    except ValueError:
        return ""
    return text


def _refuse_default_name(body: Body) -> None:
    if body.get("name") == DEFAULT:
        raise SecurityGroupDefaultAlreadyExists(
            f"only a project's default security group is named {DEFAULT!r}, and that is made for it"
        )


def _refuse_used(unit: UnitOfWork, group: SecurityGroup, what: str) -> None:
    query = Query(filters={"security_groups": (str(group.id),)}, limit=NAMED_IN_TEXTS + 1)
    ports = [row.body["id"] for row in unit.tx.resources.find(Kind.PORT, query)]
    if ports:
        named = ", ".join(ports[:NAMED_IN_TEXTS])
        more = " and others" if len(ports) > NAMED_IN_TEXTS else ""
        raise SecurityGroupInUse(
            f"security group {group.id} {what} while ports are in it: {named}{more}; "
            "take it off them first"
        )
