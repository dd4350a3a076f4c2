"""The firewall of routers: groups are stored with the routers of their ports, for agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast
from uuid import UUID

from attrs import evolve

from netfw.errors import NotFound
from netfw.errors.firewalls import FirewallGroupPortInUse
from netfw.model.resource import Kind, Ref
from netfw.model.router import Router
from netfw.model.router_firewall import FirewallGroup, FirewallRule
from netfw.model.values.ids import FirewallGroupId, PortId
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.firewalls.references import (
    DIRECTIONS,
    GROUP,
    GROUPS_OF_POLICY,
    POLICY,
    RULE,
    RULES_OF_POLICY,
    find_all,
    stored,
)
from netfw.server.firewalls.rule_values import make_rule

Document = Mapping[str, Any]
ROUTERS = "routers"
"""The ports of a group by router; an attribute that the API does not show."""


def store_in_routers(unit: UnitOfWork, before: Document | None, after: Document) -> None:
    """Store a group as it is after a change with the routers of its ports.

    :raises FirewallGroupPortInUse: a port is in another group.
    """
    former, wanted = {} if before is None else before[ROUTERS], after[ROUTERS]
    group, rules = FirewallGroupId(UUID(after["id"])), [*_rules(unit, after)] if wanted else []
    for id in sorted({*former, *wanted}):
        made = None
        if id in wanted:
            ports = tuple(PortId(UUID(port)) for port in wanted[id])
            ingress, egress = rules
            made = FirewallGroup(id=group, ports=ports, ingress=ingress, egress=egress)
        _store(unit, UUID(id), group, made)


def update_stored_groups(unit: UnitOfWork, policies: Iterable[str]) -> None:
    """Store the groups of *policies*, whose rules changed, with their routers."""
    found = find_all(unit, POLICY, policies).values()
    groups = {group for policy in found for group in policy[GROUPS_OF_POLICY]}
    for each in find_all(unit, GROUP, groups).values():
        store_in_routers(unit, each, each)


def _store(unit: UnitOfWork, id: UUID, group: FirewallGroupId, made: FirewallGroup | None) -> None:
    try:
        router = cast(Router, unit.tx.resources.get(Kind.ROUTER, id, lock=True).resource())
    except NotFound:
        if made is None:
            return  # deleted in the same transaction
        raise RetryTransaction(f"router {id} was deleted meanwhile") from None
    others = tuple(each for each in router.firewall_groups if each.id != group)
    taken = {port for each in others for port in each.ports}
    if made is not None and (used := sorted(taken & {*made.ports})):
        raise FirewallGroupPortInUse(f"port {used[0]} is in another firewall group")
    if made is not None:
        _require_interfaces(unit, router, made)
    groups = others if made is None else (*others, made)
    order = tuple(sorted(groups, key=lambda each: each.id))
    unit.update(router, evolve(router, firewall_groups=order))


def _require_interfaces(unit: UnitOfWork, router: Router, group: FirewallGroup) -> None:
    """Check the ports that *group* gains: one may have left *router* before this locked it.

    :raises RetryTransaction: it has; the request is validated again.
    """
    present = {port for each in router.firewall_groups for port in each.ports}
    if not (gained := {*group.ports} - present):
        return
    rows = unit.tx.resources.present(Ref(Kind.PORT, id) for id in sorted(gained))
    connected = {row.ref.id for row in rows if row.body["device_id"] == str(router.id)}
    if left := sorted(gained - connected):
        raise RetryTransaction(f"port {left[0]} left router {router.id} meanwhile")


def _rules(unit: UnitOfWork, group: Document) -> Iterable[tuple[FirewallRule, ...]]:
    """Yield the rules for each direction; a group that is switched off allows nothing."""
    ids = sorted({group[name] for name in DIRECTIONS if group[name] is not None})
    policies = {id: stored(unit, POLICY).get(UUID(id), lock=True) for id in ids}
    wanted = [rule for policy in policies.values() for rule in policy[RULES_OF_POLICY]]
    rules = find_all(unit, RULE, wanted)
    for name in DIRECTIONS:
        policy = policies.get(group[name] or "")
        named = [] if policy is None or not group["admin_state_up"] else policy[RULES_OF_POLICY]
        yield tuple(make_rule(rules[id]) for id in named if rules[id]["enabled"])
