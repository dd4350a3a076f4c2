"""Which agents are to serve something.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from attrs import frozen

from netfw.model.agent import Agent
from netfw.model.router import Router

LEGACY, CENTRAL, EDGE = "legacy", "dvr_snat", "dvr"
"""The modes of L3 agents: routers that are in one place, those and the central part of distributed
ones, and the distributed part alone."""


@frozen(kw_only=True)
class Candidate:
    """A host that could serve, and how much it serves already."""

    host: str
    zone: str | None = None
    load: int = 0


def candidates(agents: Iterable[Agent], loads: Mapping[str, int]) -> tuple[Candidate, ...]:
    """The hosts of those *agents* that are alive and switched on."""
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
    """The hosts that are to serve beside those that do: fewer than *wanted* where there are none.

    Who serves goes on.  Of the others, those in *zones*, if any are given: first in a zone where
    the fewest serve, then with the least to do, then by name, so that all servers choose alike.
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
    """The mode of an L3 agent."""
    return str(agent.configurations.content().get("agent_mode") or LEGACY)


def obstacle(agent: Agent, router: Router) -> str:
    """Why an L3 agent cannot have *router*; empty: it can."""
    mode = mode_of(agent)
    if router.distributed and mode != CENTRAL:
        return f"router {router.id} is distributed, and its mode is {mode}, not {CENTRAL}"
    if not router.distributed and mode not in (LEGACY, CENTRAL):
        return f"router {router.id} is in one place, and its mode is {mode}"
    return ""


def wanted_agents(router: Router, most: int, there_are: int) -> int:
    """How many agents are to have *router*; *most* 0: all that there are."""
    if not router.ha:
        return 1
    return there_are if most == 0 else most
