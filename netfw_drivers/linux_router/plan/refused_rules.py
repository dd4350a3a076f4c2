"""Rules of extensions whose floating IP was refused: they stay as they are.  Pure."""

from __future__ import annotations

from collections.abc import Container

from attrs import evolve

from netfw.drivers.values.contribution import RouterRule
from netfw.drivers.values.router_values import RouterState
from netfw.linux.iptables.chain import ChainKey
from netfw.linux.iptables.rule import Family
from netfw.model.values.ids import FloatingIpId
from netfw_drivers.linux_router.plan.contributed_rules import (
    PortDevices,
    chain_of,
    render_contributed,
)
from netfw_drivers.linux_router.plan.observed import FoundRouter


def without_refused_rules(
    state: RouterState,
    refused: Container[FloatingIpId],
    found: FoundRouter,
    devices: PortDevices,
) -> RouterState:
    """Return *state* without the rules of *refused* floating IPs that are not in force."""
    contributions = tuple(
        evolve(
            each,
            rules=tuple(
                rule
                for rule in each.rules
                if rule.floating_ip not in refused or _is_in_force(rule, each.owner, found, devices)
            ),
        )
        for each in state.contributions
    )
    return evolve(state, contributions=contributions)


def _is_in_force(rule: RouterRule, owner: str, found: FoundRouter, devices: PortDevices) -> bool:
    family, table = Family(rule.ip_version), rule.table.value
    key = ChainKey(family=family, table=table, name=chain_of(rule, owner))
    line = render_contributed(rule, devices)
    if line is None:
        return False
    printed = found.netns.spelling.get((family, table), {}).get(line, line)
    return not {line, printed}.isdisjoint(found.mirror.chains.get(key, ()))
