"""Handlers of firewall rules and policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from netfw.drivers.server.query import Body
from netfw.errors import InvalidInput
from netfw.errors.firewalls import (
    FirewallPolicyInUse,
    FirewallPolicySharingConflict,
    FirewallRuleAlreadyAssociated,
    FirewallRuleConflict,
    FirewallRuleInUse,
    FirewallRuleNotAssociatedWithPolicy,
    FirewallRuleNotFound,
)
from netfw.model.router_firewall import MAX_FIREWALL_RULES
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.firewalls.handler import FirewallDocumentHandler
from netfw.server.firewalls.references import (
    GROUP,
    GROUPS_OF_POLICY,
    POLICIES_OF_RULE,
    POLICY,
    RULE,
    RULES_OF_POLICY,
    find_all,
    is_own,
    is_visible,
    rewrite,
    update_users,
)
from netfw.server.firewalls.router_groups import update_stored_groups
from netfw.server.firewalls.rule_values import validate_rule


class FirewallRuleHandler(FirewallDocumentHandler):
    """Firewall rules; a change reaches the routers of all groups that use the rule."""

    def __init__(self) -> None:
        super().__init__(RULE)

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        for body in bodies:
            validate_rule(body)
        return super().do_create(unit, [{**body, POLICIES_OF_RULE: []} for body in bodies])

    def do_update(self, unit: UnitOfWork, before: dict[str, Any], body: Body) -> Body:
        validate_rule({**before, **body})
        if before["shared"] and body.get("shared") is False:
            self._refuse_unsharing(unit, before)
        after = super().do_update(unit, before, body)
        if after != before:
            for policy in find_all(unit, POLICY, before[POLICIES_OF_RULE]).values():
                rewrite(unit, POLICY, policy, audited=False)
            update_stored_groups(unit, before[POLICIES_OF_RULE])
        return after

    def do_delete(self, unit: UnitOfWork, before: Body) -> None:
        if used := cast("list[str]", before[POLICIES_OF_RULE]):
            raise FirewallRuleInUse(
                f"firewall rule {before['id']} is in policy {used[0]}; remove it there"
            )
        super().do_delete(unit, before)

    def _refuse_unsharing(self, unit: UnitOfWork, rule: dict[str, Any]) -> None:
        for policy in find_all(unit, POLICY, rule[POLICIES_OF_RULE]).values():
            if policy["shared"] or policy["project_id"] != rule["project_id"]:
                raise FirewallRuleInUse(
                    f"policy {policy['id']}, which is shared or of another project, has rule "
                    f"{rule['id']}"
                )


class FirewallPolicyHandler(FirewallDocumentHandler):
    """Firewall policies: ordered lists of rules."""

    def __init__(self) -> None:
        super().__init__(POLICY, GROUPS_OF_POLICY)

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        made = super().do_create(unit, [{**body, GROUPS_OF_POLICY: []} for body in bodies])
        for policy in made:
            self._relink(unit, {RULES_OF_POLICY: []}, policy)
        return made

    def do_update(self, unit: UnitOfWork, before: dict[str, Any], body: Body) -> Body:
        if before["shared"] and body.get("shared") is False:
            self._refuse_unsharing(unit, before)
        changed = any(before[name] != value for name, value in body.items())
        audited = {"audited": False} if changed and "audited" not in body else {}
        after = super().do_update(unit, before, {**body, **audited})
        if after != before:
            self._relink(unit, before, after)
            update_stored_groups(unit, [before["id"]])
        return after

    def do_delete(self, unit: UnitOfWork, before: Body) -> None:
        if groups := cast("list[str]", before[GROUPS_OF_POLICY]):
            raise FirewallPolicyInUse(
                f"firewall group {groups[0]} uses firewall policy {before['id']}"
            )
        super().do_delete(unit, before)
        update_users(unit, RULE, before["id"], gained=set(), lost={*rules_of(before)})

    def act(self, unit: UnitOfWork, id: str, action: str, body: Body) -> Body:
        if action not in ("insert_rule", "remove_rule"):
            return super().act(unit, id, action, body)
        policy = self.get_for_update(unit, id)
        present, rule = policy[RULES_OF_POLICY], str(body["firewall_rule_id"])
        if action == "insert_rule":
            return self.change(unit, policy, {RULES_OF_POLICY: insert_rule(present, rule, body)})
        if rule not in present:
            raise FirewallRuleNotAssociatedWithPolicy(
                {"firewall_rule_id": f"policy {id} does not have rule {rule}"}
            )
        left = [each for each in present if each != rule]
        return self.change(unit, policy, {RULES_OF_POLICY: left})

    def _relink(self, unit: UnitOfWork, before: Body, policy: Body) -> None:
        """Check the rules of *policy*, and have them name it.

        :raises RequestError: the policy cannot have one of them.
        """
        named = rules_of(policy)
        if len(set(named)) < len(named):
            raise FirewallRuleAlreadyAssociated("a policy has a rule once; one is there twice")
        found = find_all(unit, RULE, named)
        for id in named:
            rule = found.get(id)
            if rule is None or not is_visible(unit.requester, rule):
                raise FirewallRuleNotFound(f"there is no firewall rule {id}")
            if policy["shared"] and not rule["shared"]:
                raise FirewallPolicySharingConflict(
                    f"the policy is shared, and its rule {id} is not; share the rule first"
                )
            if not is_own(policy, rule):
                raise FirewallRuleConflict(f"rule {id} is of another project, and not shared")
        former, wanted = {*rules_of(before)}, {*named}
        update_users(unit, RULE, policy["id"], gained=wanted - former, lost=former - wanted)

    def _refuse_unsharing(self, unit: UnitOfWork, policy: dict[str, Any]) -> None:
        for group in find_all(unit, GROUP, policy[GROUPS_OF_POLICY]).values():
            if group["project_id"] != policy["project_id"]:
                raise FirewallPolicyInUse(f"group {group['id']} of another project uses the policy")


def rules_of(policy: Body) -> list[str]:
    """Return the ids of the rules of a policy, in order."""
    return cast("list[str]", policy[RULES_OF_POLICY])


def insert_rule(present: Sequence[str], rule: str, body: Body) -> list[str]:
    """Return *present* with *rule* where *body* says; without a position, it is the first.

    :raises RequestError: the rule is there already, or its neighbour is not.
    """
    if rule in present:
        raise FirewallRuleAlreadyAssociated(f"the policy has rule {rule} already")
    if len(present) >= MAX_FIREWALL_RULES:
        raise InvalidInput({"firewall_rule_id": f"a policy has at most {MAX_FIREWALL_RULES} rules"})
    for name, offset in (("insert_before", 0), ("insert_after", 1)):
        neighbour = body.get(name)
        if neighbour:
            if neighbour not in present:
                raise FirewallRuleNotAssociatedWithPolicy(
                    {name: f"the policy does not have rule {neighbour}"}
                )
            at = present.index(str(neighbour)) + offset
            return [*present[:at], rule, *present[at:]]
    return [rule, *present]
