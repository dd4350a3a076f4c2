"""QosPolicyHandler, and the service plugin for QoS policies, their rules and the rule types."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, ClassVar, Self, cast
from uuid import uuid4

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.query import Body, RequestContext
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.errors import Conflict
from netfw.errors.qos import QoSPolicyDefaultAlreadyExists, QosPolicyInUse
from netfw.model.qos import QosPolicy, QosRuleType
from netfw.model.rbac_policy import EVERY_PROJECT
from netfw.model.resource import Kind
from netfw.model.wire import parse, render
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import Reader, StoredResourceHandler
from netfw.server.core.server_context import ServerContext, server_context
from netfw.server.core.sharing import find_use, policies_of
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.engine.errors import Duplicate, RetryTransaction
from netfw.server.db.resources.qos_policies import QosPolicyRows
from netfw.server.qos.rule_types import RuleTypeHandler
from netfw.server.qos.rules import AliasRuleHandler, QosRuleHandler

ALIASED = tuple(each for each in QosRuleType if each is not QosRuleType.PACKET_RATE_LIMIT)
"""Types whose rules have a URL of their own, without the policy."""


class QosPolicyHandler(StoredResourceHandler[QosPolicy]):
    """QoS policies; their rules have handlers of their own, and are shown with them."""

    name: ClassVar[str] = "policy"
    kind: ClassVar[Kind] = Kind.QOS_POLICY
    quota: ClassVar[str | None] = None

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[QosPolicy, ...]:
        new = [cast(QosPolicy, parse(self.kind, {**body, "id": str(uuid4())})) for body in bodies]
        _check_defaults(unit, new)
        try:
            return unit.insert(*new)
        except Duplicate as exc:
            raise _other_default(exc) from exc

    def do_update(self, unit: UnitOfWork, before: QosPolicy, body: Body) -> QosPolicy:
        after = cast(QosPolicy, parse(self.kind, {**render(before), **body}))
        if after.is_default and not before.is_default:
            _check_defaults(unit, [after])
        if before.shared and not after.shared:
            _refuse_used_by_others(unit, before)
        try:
            return unit.update(before, after)
        except Duplicate as exc:
            raise _other_default(exc) from exc

    def do_delete(self, unit: UnitOfWork, before: QosPolicy) -> None:
        _refuse_used(unit, before)
        try:
            unit.delete(before)
        except Conflict as exc:  # it was given to something meanwhile
            raise QosPolicyInUse(f"QoS policy {before.id} is in use; take it away first") from exc

    def decorate(
        self, reader: Reader, requester: RequestContext, bodies: Sequence[MutableMapping[str, Any]]
    ) -> None:
        for body in bodies:
            body["rules"] = [{**rule, "qos_policy_id": body["id"]} for rule in body["rules"]]


class QosPlugin(HandlerPlugin, ServicePlugin):
    """Service plugin for QoS policies; the core plugin checks what uses them."""

    VERSION: ClassVar[int] = 2

    def __init__(self, context: ServerContext) -> None:
        policies = QosPolicyHandler()
        rules = {type: QosRuleHandler(type, policies) for type in QosRuleType}
        super().__init__(
            context,
            (
                policies,
                *rules.values(),
                *(AliasRuleHandler(rules[type]) for type in ALIASED),
                RuleTypeHandler(context.qos_support),
            ),
        )

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(server_context(host))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("qos")


def _check_defaults(unit: UnitOfWork, policies: Sequence[QosPolicy]) -> None:
    projects = [policy.project_id for policy in policies if policy.is_default]
    if not projects:
        return
    for project, policy in QosPolicyRows(unit.tx.connection).defaults(projects).items():
        raise QoSPolicyDefaultAlreadyExists(
            f"QoS policy {policy} is the default one of project {project} already"
        )
    if len(set(projects)) < len(projects):
        raise QoSPolicyDefaultAlreadyExists("a project has one default QoS policy, not several")


def _other_default(exc: Duplicate) -> RetryTransaction:
    return RetryTransaction(f"the project got a default QoS policy meanwhile: {exc}")


def _refuse_used(unit: UnitOfWork, policy: QosPolicy) -> None:
    users = QosPolicyRows(unit.tx.connection).users(policy.id, 1)
    if users:
        raise QosPolicyInUse(
            f"QoS policy {policy.id} cannot be deleted while it is in use: "
            f"{', '.join(map(str, users))}; take it away from all that have it first"
        )


def _refuse_used_by_others(unit: UnitOfWork, policy: QosPolicy) -> None:
    """Refuse to end the access of projects that use *policy* and have no access of their own."""
    for each in policies_of(unit, policy.id):
        if each.target_project != EVERY_PROJECT:
            continue
        if (user := find_use(unit, each, policy)) is not None:
            raise QosPolicyInUse(
                f"QoS policy {policy.id} cannot stop being shared: {user} of another project has "
                "it; take it away there, or share the policy with that project first"
            )
