"""Refusal of what no firewall of the deployment enforces.

L2 agents report the capabilities of their firewall drivers.  What at least one live firewall
enforces is accepted: the others leave it out and name it, and pass less traffic, never more.  While
no live agent reports a firewall, or an L2 agent of another release or project does not report what
its firewall can do, everything is accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from netfw.drivers.firewall import FirewallCapability
from netfw.drivers.support.firewall_capabilities import required_capabilities
from netfw.drivers.values.subscription import Service, agent_service
from netfw.errors import InvalidInput
from netfw.model.resource import Kind, Ref
from netfw.model.security_group import SecurityGroup, TrafficMatch
from netfw.server.core.unit_of_work import UnitOfWork

_AT_ONCE: Final = 100
"""Agents that are read at once; most often one of the first enforces what is needed."""
_PORTS: Final = "leave port_range_min and port_range_max out"
_REMEDIES: Final[Mapping[FirewallCapability, tuple[str, str]]] = {
    FirewallCapability.ADDRESS_GROUPS: ("remote_address_group_id", "give remote_ip_prefix"),
    FirewallCapability.STATELESS_GROUPS: ("stateful", "give true"),
    FirewallCapability.DCCP_PORTS: ("port_range_min", _PORTS),
    FirewallCapability.UDPLITE_PORTS: ("port_range_min", _PORTS),
}
"""By capability, the attribute that needs it and what to do without it."""


def check_rules(unit: UnitOfWork, rules: Iterable[TrafficMatch]) -> None:
    """Refuse *rules* that no live firewall enforces.

    :raises InvalidInput: names the attribute.
    """
    _check(unit, {each for rule in rules for each in required_capabilities(rule)})


def check_groups(unit: UnitOfWork, groups: Iterable[SecurityGroup]) -> None:
    """Refuse stateless groups if no live firewall has them.

    :raises InvalidInput: names the attribute.
    """
    if not all(group.stateful for group in groups):
        _check(unit, {FirewallCapability.STATELESS_GROUPS})


def _check(unit: UnitOfWork, needed: Iterable[FirewallCapability]) -> None:
    missing = set(needed)
    is_known = False
    for capabilities in _live_firewalls(unit) if missing else ():
        if capabilities is None:
            return
        is_known = True
        missing -= capabilities
        if not missing:
            return
    if not is_known:
        return
    problems = {}
    for capability in sorted(missing):
        attribute, remedy = _REMEDIES[capability]
        problems[attribute] = f"no firewall of a live agent has {capability.value}: {remedy}"
    raise InvalidInput(problems)


def _live_firewalls(unit: UnitOfWork) -> Iterator[frozenset[str] | None]:
    """Yield the capabilities of each live firewall; ``None`` for an L2 agent that reports none."""
    for agent in live_l2_agents(unit):
        yield from _reported(agent["configurations"])


def live_l2_agents(unit: UnitOfWork) -> Iterator[Mapping[str, Any]]:
    """Yield each L2 agent that is alive, as the API shows it."""
    longest = unit.context.settings.agent_down_time
    silences = unit.tx.heartbeats.silent_for()
    live = sorted(id for id, silence in silences.items() if silence <= longest)
    for at in range(0, len(live), _AT_ONCE):
        refs = [Ref(Kind.AGENT, id) for id in live[at : at + _AT_ONCE]]
        for row in unit.tx.resources.present(refs):
            if agent_service(row.body["agent_type"]) is Service.L2:
                yield row.body


def _reported(configurations: Mapping[str, Any]) -> Iterator[frozenset[str] | None]:
    """Yield the capabilities that an L2 agent reports; nothing if it has no firewall."""
    found = configurations.get("firewall_capabilities")
    if isinstance(found, list):
        capabilities = frozenset(each for each in found if isinstance(each, str))
        if FirewallCapability.FILTERING in capabilities:
            yield capabilities
    elif "bridge_mappings" in configurations:
        yield None
