"""QosRuleHandler and AliasRuleHandler: the rules of QoS policies.

A rule is a part of its policy.  Each change of a rule locks the policy and gives it its next
revision, by which the hosts that use it get it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID, uuid4

from attrs import evolve

from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.errors import InvalidInput, NotFound, NotSupported
from netfw.errors.qos import QosRuleNotFound, QoSRuleParameterConflict, QoSRulesConflict
from netfw.model.qos import (
    AnyDirection,
    BandwidthLimit,
    MinimumBandwidth,
    MinimumPacketRate,
    QosPolicy,
    QosRule,
    QosRuleType,
    rule_direction,
    rule_type,
)
from netfw.model.resource import Kind
from netfw.model.wire.codec import CodecError
from netfw.model.wire.policies import QOS_RULE
from netfw.server.core.resource_handler import Reader, ResourceHandler, apply_query
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.resources.qos_policies import QosPolicyRows
from netfw.server.qos.references import check_changed_policy

if TYPE_CHECKING:
    from netfw.server.qos.policies import QosPolicyHandler

PARENT = "policy_id"
TYPE = "type"


class QosRuleHandler(ResourceHandler):
    """Rules of one type; the id of a member is ``<policy>/<rule>``."""

    def __init__(self, type: QosRuleType, policies: QosPolicyHandler) -> None:
        self.name = f"{type}_rule"  # type: ignore[misc]  # a handler of each type
        self.type, self._policies = type, policies

    def create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        rules = []
        for body in bodies:
            policy = self._policies.get_for_update(unit, str(body[PARENT]))
            plain = {name: value for name, value in body.items() if name != PARENT}
            rule = _parse({**plain, "id": str(uuid4()), TYPE: self.type.value})
            self._store(unit, policy, (*policy.rules, rule), rule)
            rules.append(_render(rule))
        return tuple(rules)

    def update(self, unit: UnitOfWork, id: str, body: Body, revision: int | None = None) -> Body:
        policy, before = self._locked(unit, id, revision)
        rule = _parse({**_render(before), **body, TYPE: self.type.value})
        rules = [rule if each.id == rule.id else each for each in policy.rules]
        self._store(unit, policy, rules, rule)
        return _render(rule)

    def delete(self, unit: UnitOfWork, id: str, revision: int | None = None) -> None:
        policy, gone = self._locked(unit, id, revision)
        rules = tuple(each for each in policy.rules if each.id != gone.id)
        unit.update(policy, evolve(policy, rules=rules))

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        (policy,) = query.filters[PARENT]
        filters = {name: values for name, values in query.filters.items() if name != PARENT}
        rules = self._of(self._read(reader, requester, str(policy)))
        return apply_query(map(_render, rules), evolve(query, filters=filters))

    def show(self, reader: Reader, requester: RequestContext, id: str) -> Body:
        policy, _, own = id.partition("/")
        return _render(self.find_rule(reader, requester, policy, own)[1])

    def find_rule(
        self, reader: Reader, requester: RequestContext, policy: str, id: str
    ) -> tuple[QosPolicy, QosRule]:
        """Return a rule with its policy.

        :raises NotFound: it does not exist, or the policy is invisible to the requester.
        """
        found = self._read(reader, requester, policy)
        return found, self._rule(found, id)

    def _read(self, reader: Reader, requester: RequestContext, id: str) -> QosPolicy:
        own = self._policies.identity(id)
        row = reader.resources.get(Kind.QOS_POLICY, own, project=requester.sees)
        return cast(QosPolicy, row.resource())

    def _locked(self, unit: UnitOfWork, id: str, revision: int | None) -> tuple[QosPolicy, QosRule]:
        parent, _, own = id.partition("/")
        policy = self._policies.get_for_update(unit, parent, revision)
        return policy, self._rule(policy, own)

    def _rule(self, policy: QosPolicy, id: str) -> QosRule:
        for rule in self._of(policy):
            if str(rule.id) == id.lower():
                return rule
        raise QosRuleNotFound(f"QoS policy {policy.id} has no {self.name} {id[:80]!r}")

    def _of(self, policy: QosPolicy) -> Iterator[QosRule]:
        return (rule for rule in policy.rules if rule_type(rule) is self.type)

    def _store(
        self, unit: UnitOfWork, policy: QosPolicy, rules: Sequence[QosRule], changed: QosRule
    ) -> None:
        check_conflicts(policy, changed)
        after = evolve(policy, rules=tuple(rules))
        check_changed_policy(unit, after)
        unit.update(policy, after)


class AliasRuleHandler(ResourceHandler):
    """Rules of one type by their own id, without that of the policy; they are shown with the
    project of the policy."""

    def __init__(self, rules: QosRuleHandler) -> None:
        self.name = f"alias_{rules.name}"  # type: ignore[misc]  # a handler of each type
        self._rules = rules

    def update(self, unit: UnitOfWork, id: str, body: Body, revision: int | None = None) -> Body:
        self._rules.update(unit, self._full_id(unit.tx, unit.requester, id), body, revision)
        return self.show(unit.tx, unit.requester, id)

    def delete(self, unit: UnitOfWork, id: str, revision: int | None = None) -> None:
        self._rules.delete(unit, self._full_id(unit.tx, unit.requester, id), revision)

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        raise NotSupported("rules are listed with their policy")

    def show(self, reader: Reader, requester: RequestContext, id: str) -> Body:
        policy, rule = self._find(reader, requester, id)
        project = policy.project_id
        return {**_render(rule), "project_id": project, "tenant_id": project}

    def _full_id(self, reader: Reader, requester: RequestContext, id: str) -> str:
        policy, rule = self._find(reader, requester, id)
        return f"{policy.id}/{rule.id}"

    def _find(
        self, reader: Reader, requester: RequestContext, id: str
    ) -> tuple[QosPolicy, QosRule]:
        """Return the rule with its policy; a rule of an invisible policy is as good as none."""
        with suppress(ValueError, NotFound):
            rule = UUID(id)
            policy = QosPolicyRows(reader.connection).of_rule(rule, self._rules.type.value)
            if policy is not None:
                return self._rules.find_rule(reader, requester, str(policy), str(rule))
        raise QosRuleNotFound(f"there is no {self._rules.name} {id[:80]!r}")


def check_conflicts(policy: QosPolicy, rule: QosRule) -> None:
    """Refuse *rule*, which is new or changed, if it contradicts another one of *policy*.

    :raises QoSRulesConflict: there is a rule for the same thing.
    :raises QoSRuleParameterConflict: a guarantee would exceed a limit, or one guarantee would cover
        both directions and another one of them.
    """
    for other in policy.rules:
        if other.id == rule.id:
            continue
        same = rule_type(other) is rule_type(rule)
        if same and rule_direction(other) is rule_direction(rule):
            raise QoSRulesConflict(
                f"QoS policy {policy.id} has rule {other.id} ({rule_type(other)}, "
                f"{rule_direction(other)}) already; change that one"
            )
        if same and isinstance(rule, MinimumPacketRate):
            _refuse_mixed(policy, rule, other)
        _refuse_exceeded(policy, rule, other)


def _refuse_mixed(policy: QosPolicy, rule: QosRule, other: QosRule) -> None:
    if AnyDirection.ANY in (rule_direction(rule), rule_direction(other)):
        raise QoSRuleParameterConflict(
            f"direction {rule_direction(rule)} contradicts rule {other.id} of QoS policy "
            f"{policy.id}, which is for direction {rule_direction(other)}"
        )


def _refuse_exceeded(policy: QosPolicy, rule: QosRule, other: QosRule) -> None:
    if rule_direction(rule) is not rule_direction(other):
        return
    pair = {type(rule): rule, type(other): other}
    limit, least = pair.get(BandwidthLimit), pair.get(MinimumBandwidth)
    if not isinstance(limit, BandwidthLimit) or not isinstance(least, MinimumBandwidth):
        return
    if least.min_kbps > limit.max_kbps:
        raise QoSRuleParameterConflict(
            f"QoS policy {policy.id} cannot guarantee {least.min_kbps} kbit/s {least.direction} "
            f"(min_kbps) and allow at most {limit.max_kbps} (max_kbps)"
        )


def _parse(body: Mapping[str, Any]) -> QosRule:
    try:
        return cast(QosRule, QOS_RULE.parse(body))
    except CodecError as exc:
        raise InvalidInput(exc.problems) from exc


def _render(rule: QosRule) -> dict[str, Any]:
    body = cast(MutableMapping[str, Any], QOS_RULE.render(rule))
    return {name: value for name, value in body.items() if name != TYPE}
