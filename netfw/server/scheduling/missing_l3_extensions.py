"""Routers that L3 agents run without an L3 extension that they need.

An agent that does not report its extensions, of another release or project, is taken to have all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import cast
from uuid import UUID

from netfw.drivers.server.query import Query
from netfw.drivers.values.subscription import Service
from netfw.errors.routers import RouterExtensionNotLoaded
from netfw.model.agent import Agent
from netfw.model.resource import Kind, Ref
from netfw.model.router import Router
from netfw.model.values.ids import RouterId
from netfw.server.agents.agents import L3_AGENT
from netfw.server.core.resource_handler import Reader
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.assignments import AssignmentRows
from netfw.server.db.agents.heartbeats import agents_on
from netfw.server.scheduling.choice import runs_local_parts


def check_extension(unit: UnitOfWork, router: RouterId, extension: str) -> None:
    """Refuse what a router needs *extension* for, if its L3 agents would leave it out.

    :raises RouterExtensionNotLoaded: says what to configure.
    """
    if find_without_extension(unit.tx, [router], extension):
        raise RouterExtensionNotLoaded(
            f"an L3 agent of router {router}, or each that could have it, lacks the extension "
            f"{extension}: add it to extensions in [agent] of the L3 agents"
        )


def find_without_extension(
    reader: Reader, routers: Collection[UUID], extension: str
) -> frozenset[UUID]:
    """Return those of *routers* that a host has, or may have a local part of, without *extension*.

    A router that no host has yet is among them if each L3 agent lacks the extension.
    """
    refs = [Ref(Kind.ROUTER, id) for id in routers]
    hosts: dict[UUID, set[str]] = {id: set() for id in routers}
    for each in AssignmentRows(reader.connection).of(refs):
        if each.service is Service.L3:
            hosts[each.ref.id].add(each.host)
    found = [cast(Router, row.resource()) for row in reader.resources.present(refs)]
    distributed = {router.id for router in found if router.distributed}
    if distributed or not all(hosts.values()):
        agents = _all_agents(reader)
    else:
        by_host = agents_on(reader.connection, {host for some in hosts.values() for host in some})
        agents = [each.agent for some in by_host.values() for each in some]
    l3 = [agent for agent in agents if agent.agent_type == L3_AGENT]
    lacking = {agent.host for agent in l3 if _lacks(agent, extension)}
    local = {agent.host for agent in l3 if runs_local_parts(agent)}
    without = set[UUID]()
    for id, assigned in hosts.items():
        serving = assigned | local if id in distributed else assigned
        if serving & lacking or (not serving and l3 and len(lacking) == len(l3)):
            without.add(id)
    return frozenset(without)


def _all_agents(reader: Reader) -> Iterable[Agent]:
    query = Query(filters={"agent_type": (L3_AGENT,)})
    return [cast(Agent, row.resource()) for row in reader.resources.find(Kind.AGENT, query)]


def _lacks(agent: Agent, extension: str) -> bool:
    reported = agent.configurations.content().get("extensions")
    return isinstance(reported, list) and extension not in reported
