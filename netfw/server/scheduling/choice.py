"""Choice of agents for networks and routers. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from attrs import frozen

from netfw.drivers.values.router_values import MAX_HA_PEERS
from netfw.model.agent import Agent
from netfw.model.router import Router

LEGACY: Final = "legacy"
"""Mode of L3 agents that have plain and highly available routers."""
DVR_SNAT: Final = "dvr_snat"
"""Mode of those that also have distributed routers, with their central parts."""
DVR: Final = "dvr"
"""Mode of those that have the local parts of distributed routers, with floating IPs."""
DVR_NO_EXTERNAL: Final = "dvr_no_external"
"""Mode of those that have the local parts without floating IPs: their host has no external
network."""
MODES: Final = (LEGACY, DVR, DVR_SNAT, DVR_NO_EXTERNAL)

MAX_HA_HOSTS = MAX_HA_PEERS + 1
"""Maximum of hosts that a highly available router can be on."""


@frozen(kw_only=True)
class Candidate:
    """Host that could serve, and its present load."""

    host: str
    zone: str | None = None
    load: int = 0


def candidates(agents: Iterable[Agent], loads: Mapping[str, int]) -> tuple[Candidate, ...]:
    """Return the hosts of those *agents* that are alive and switched on."""
    return tuple(
        Candidate(host=agent.host, zone=agent.availability_zone, load=loads.get(agent.host, 0))
        for agent in agents
        if agent.alive and agent.admin_up
    )


def choose(
    offered: Sequence[Candidate],
    serving: Collection[Candidate],
    wanted: int,
    zones: Collection[str] = (),
) -> tuple[str, ...]:
    """Return the additional hosts that are to serve; fewer than *wanted* if candidates are lacking.

    Present hosts stay. Others are limited to *zones*, if any are given, and ordered by the number
    of serving hosts in their zone, then by load, then by name, so that all servers choose alike.
    """
    hosts = {each.host for each in serving}
    free = [each for each in offered if each.host not in hosts]
    if zones:
        free = [each for each in free if each.zone in zones]
    taken = Counter(each.zone for each in serving)
    chosen: list[str] = []
    while free and len(hosts) + len(chosen) < wanted:
        best = min(free, key=lambda each: (taken[each.zone], each.load, each.host))
        free.remove(best)
        taken[best.zone] += 1
        chosen.append(best.host)
    return tuple(chosen)


def mode_of(agent: Agent) -> str:
    """Return the mode of an L3 agent."""
    return str(agent.configurations.content().get("agent_mode") or LEGACY)


def ineligibility(agent: Agent, router: Router) -> str:
    """Return why an L3 agent cannot have *router*, or its central part; empty: it can."""
    mode = mode_of(agent)
    if mode not in MODES:
        return f"its mode {mode[:64]!r} is unknown: it is none of {', '.join(MODES)}"
    if router.distributed and mode != DVR_SNAT:
        return (
            f"router {router.id} is distributed, and its central part needs an agent whose mode is "
            f"{DVR_SNAT}, not {mode}"
        )
    if not router.distributed and mode not in (LEGACY, DVR_SNAT):
        return f"router {router.id} is not distributed, and its mode is {mode}"
    return ""


def runs_local_parts(agent: Agent) -> bool:
    """Return whether an L3 agent has parts of distributed routers for instances on its host."""
    return mode_of(agent) in (DVR, DVR_SNAT)


def serves_floating_ips(agent: Agent) -> bool:
    """Return whether an L3 agent translates the floating IPs of instances on its host."""
    return runs_local_parts(agent) and not agent.configurations.content().get("enable_inat_enat")


def wanted_agents(router: Router, most: int, there_are: int) -> int:
    """Return how many agents *router* is to have; *most* 0: all that exist, as far as possible."""
    if not router.ha:
        return 1
    return min(there_are, max_agents(most)) if most == 0 else max_agents(most)


def max_agents(most: int) -> int:
    """Return how many agents a highly available router can have; *most* 0: no other limit."""
    return min(most or MAX_HA_HOSTS, MAX_HA_HOSTS)
