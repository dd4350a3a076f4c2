"""Rules of floating IPs that extensions contribute, as the routers have them.  Pure.

A refused router keeps its former rules, so a floating IP whose rules did not change is in force.
"""

from __future__ import annotations

from collections.abc import Container

from attrs import define, field, frozen

from netfw.agents.l3.router_state import gateway_port_of
from netfw.drivers.values.keys import FloatingIpKey, RouterKey
from netfw.drivers.values.router_contribution import RouterRule
from netfw.drivers.values.router_values import RouterState
from netfw.model.values.ids import PortId


@frozen
class FloatingIpRules:
    """The rules of one floating IP, and the gateway that has its address."""

    gateway_port: PortId | None
    rules: tuple[RouterRule, ...]


@define
class ContributedRules:
    """The rules of floating IPs that are in force, by router."""

    _in_force: dict[RouterKey, dict[FloatingIpKey, FloatingIpRules]] = field(factory=dict)

    def record(
        self, router: RouterKey, state: RouterState, refused: Container[FloatingIpKey]
    ) -> None:
        """Record that *state* is in force, but for *refused* ones, whose former rules are."""
        former = self._in_force.get(router, {})
        rules = {key: each for key, each in _by_key(state).items() if key not in refused}
        rules |= {key: each for key, each in former.items() if key in refused}
        self._in_force[router] = rules

    def forget(self, router: RouterKey) -> None:
        """Forget a router that is gone."""
        self._in_force.pop(router, None)

    def unchanged(self, router: RouterKey, state: RouterState) -> frozenset[FloatingIpKey]:
        """Return the floating IPs whose rules in force are those of *state*."""
        former = self._in_force.get(router, {})
        return frozenset(key for key, each in _by_key(state).items() if former.get(key) == each)


def _by_key(state: RouterState) -> dict[FloatingIpKey, FloatingIpRules]:
    rules: dict[FloatingIpKey, list[RouterRule]] = {}
    for rule in (rule for each in state.contributions for rule in each.rules):
        if rule.floating_ip is not None:
            rules.setdefault(FloatingIpKey(rule.floating_ip), []).append(rule)
    gateway_port = gateway_port_of(state)
    return {key: FloatingIpRules(gateway_port, tuple(own)) for key, own in rules.items()}
