"""Rules of extensions that were refused: they stay as they are.  Pure."""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping

from attrs import evolve

from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.drivers.values.router_contribution import RouterRule
from netfw.drivers.values.router_values import RouterDriverKey, RouterState
from netfw.errors import NetfwError, PartlyInvalid
from netfw.linux.iptables.chain import ChainKey
from netfw.linux.iptables.rule import Family
from netfw.model.values.ids import RouterId
from netfw_drivers.linux_router.plan.contributed_rules import (
    PortDevices,
    chain_of,
    render_contributed,
)
from netfw_drivers.linux_router.plan.names import OptionalRuleKey
from netfw_drivers.linux_router.plan.observed import FoundRouter


def without_refused_rules(
    router: RouterId,
    state: RouterState,
    refused: Container[Hashable],
    found: FoundRouter,
    devices: PortDevices,
) -> RouterState:
    """Return *state* without the rules of *refused* keys that are not in force."""
    contributions = tuple(
        evolve(
            each,
            rules=tuple(
                rule
                for rule in each.rules
                if _key(router, rule) not in refused
                or _is_in_force(rule, each.owner, found, devices)
            ),
        )
        for each in state.contributions
    )
    return evolve(state, contributions=contributions)


def left_out_rules(
    failed: Mapping[RouterDriverKey, NetfwError], put: Container[RouterDriverKey]
) -> dict[RouterDriverKey, NetfwError]:
    """Return *failed* with the rules that were left out as partial failures of their routers,
    where *put* has these."""
    errors = {key: error for key, error in failed.items() if not isinstance(key, OptionalRuleKey)}
    for left_out, reason in failed.items():
        if isinstance(left_out, OptionalRuleKey):
            key = RouterKey(left_out.router)
            error = errors.get(key)
            others = error.problems if isinstance(error, PartlyInvalid) else {}
            if key in put and (error is None or others):
                errors[key] = PartlyInvalid({**others, left_out.subject: str(reason)})
    return errors


def _key(router: RouterId, rule: RouterRule) -> Hashable:
    if rule.subject:
        return OptionalRuleKey(router, rule.subject)
    return None if rule.floating_ip is None else FloatingIpKey(rule.floating_ip)


def _is_in_force(rule: RouterRule, owner: str, found: FoundRouter, devices: PortDevices) -> bool:
    family, table = Family(rule.ip_version), rule.table.value
    key = ChainKey(family=family, table=table, name=chain_of(rule, owner))
    line = render_contributed(rule, devices)
    if line is None:
        return False
    printed = found.netns.spelling.get((family, table), {}).get(line, line)
    return not {line, printed}.isdisjoint(found.mirror.chains.get(key, ()))
