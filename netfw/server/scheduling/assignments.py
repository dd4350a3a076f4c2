"""AgentAssignments: the agents of one type, and what is assigned to their hosts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, MutableMapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from attrs import field, frozen

from netfw.drivers.server.query import Query
from netfw.drivers.values.subscription import Service
from netfw.model.agent import Agent
from netfw.model.resource import Kind, Ref
from netfw.server.agents.agents import SERVICES, agents
from netfw.server.core.resource_handler import Reader
from netfw.server.core.settings import Settings
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.assignments import AssignmentRows
from netfw.server.db.agents.excluded_hosts import ExcludedHosts
from netfw.server.scheduling.choice import Candidate, candidates, choose
from netfw.state.dependencies import Assignment

LOG = logging.getLogger(__name__)

EXCLUDED: Final = "%s: removed from the %s on %s on request; it is assigned there only on request"


@frozen
class AgentAssignments:
    """Reads and writes the assignments of one type of agent, in a transaction."""

    agent_type: str
    settings: Settings
    service: Service = field(init=False)

    @service.default
    def _service(self) -> Service:
        return SERVICES[self.agent_type]

    def agents(self, reader: Reader) -> tuple[Agent, ...]:
        """Return all agents of the type, dead ones included."""
        return agents(reader, self.settings, agent_type=self.agent_type)

    def any(self, reader: Reader) -> bool:
        """Return whether there is an agent, dead or alive."""
        query = Query(filters={"agent_type": (self.agent_type,)}, limit=1)
        return bool(reader.resources.find(Kind.AGENT, query))

    def dead(self, reader: Reader) -> frozenset[str]:
        """Return the hosts of dead agents."""
        return frozenset(agent.host for agent in self.agents(reader) if not agent.alive)

    def switched_off(self, reader: Reader) -> frozenset[str]:
        """Return the hosts of agents that are switched off."""
        return frozenset(agent.host for agent in self.agents(reader) if not agent.admin_up)

    def withdrawn(self, reader: Reader) -> frozenset[str]:
        """Return the hosts of agents that are switched off, and those with assignments although
        their agent was deleted."""
        return self.switched_off(reader) | {each.host for each in self.without_agent(reader)}

    def hosts(self, reader: Reader, target: Ref) -> frozenset[str]:
        """Return the hosts that serve *target*."""
        found = AssignmentRows(reader.connection).of([target])
        return frozenset(each.host for each in found if each.service is self.service)

    def at(self, reader: Reader, host: str) -> tuple[UUID, ...]:
        """Return the ids of what *host* serves."""
        found = AssignmentRows(reader.connection).at(self.service, host)
        return tuple(sorted(each.ref.id for each in found))

    def without_agent(self, reader: Reader) -> frozenset[Assignment]:
        """Return the assignments to hosts whose agent was deleted while they were made."""
        rows = AssignmentRows(reader.connection)
        return rows.without_agent(self.service, self.agent_type)

    def fill(
        self,
        unit: UnitOfWork,
        target: Ref,
        wanted: Callable[[int], int],
        *,
        zones: Collection[str] = (),
        fits: Callable[[Agent], bool] = lambda agent: True,
    ) -> tuple[str, ...]:
        """Assign more agents to *target* if too few serve it; return the new hosts.

        *target* is locked against concurrent scheduling. *wanted* maps the number of candidates to
        the number of agents. Hosts that *target* was removed from on request are no candidates.
        """
        known = [agent for agent in self.agents(unit.tx) if fits(agent)]
        excluded = ExcludedHosts(unit.tx.connection, self.service).of(target.id)
        serving = self.hosts(unit.tx, target)
        loads = AssignmentRows(unit.tx.connection).loads(self.service)
        offered = candidates((agent for agent in known if agent.host not in excluded), loads)
        present = [
            Candidate(host=agent.host, zone=agent.availability_zone)
            for agent in known
            if agent.host in serving
        ]
        strangers = serving - {each.host for each in present}
        present += [Candidate(host=host) for host in sorted(strangers)]
        chosen = choose(
            offered,
            present,
            wanted(len(offered)),
            zones or self.settings.default_availability_zones,
        )
        self.assign(unit, target, *chosen)
        return chosen

    def assign(self, unit: UnitOfWork, target: Ref, *hosts: str) -> None:
        """Assign *target* to *hosts*."""
        for host in hosts:
            unit.tx.assignments.add(Assignment(self.service, host, target))
        if hosts:
            _run_hooks(unit, target)

    def assign_on_request(self, unit: UnitOfWork, target: Ref, host: str) -> None:
        """Assign *target*, which is locked, to *host*, also if it was removed from there."""
        ExcludedHosts(unit.tx.connection, self.service).remove(target.id, host)
        self.assign(unit, target, host)

    def unassign_on_request(self, unit: UnitOfWork, target: Ref, agent: Agent) -> None:
        """Remove *target*, which is locked, from the host of *agent*.

        It is not scheduled there again, unless the agent is switched off: that keeps it away by
        itself, until the agent is switched on.
        """
        if agent.admin_up:
            ExcludedHosts(unit.tx.connection, self.service).add(target.id, agent.host)
            unit.after_commit.append(
                partial(LOG.info, EXCLUDED, target, agent.agent_type, agent.host)
            )
        self.unassign(unit, target, agent.host)

    def unassign(self, unit: UnitOfWork, target: Ref, *hosts: str) -> None:
        """Remove *target* from *hosts*, or from all if none are named."""
        unassigned = sorted(hosts or self.hosts(unit.tx, target))
        for host in unassigned:
            unit.tx.assignments.remove(Assignment(self.service, host, target))
        if unassigned:
            _run_hooks(unit, target)


def _run_hooks(unit: UnitOfWork, target: Ref) -> None:
    for hook in unit.context.reassignment_hooks:
        hook(unit, target)


def add_zones(reader: Reader, agent_type: str, bodies: Sequence[MutableMapping[str, Any]]) -> None:
    """Add to *bodies* the zones in which agents of a type serve them, in one statement."""
    rows = AssignmentRows(reader.connection)
    ids = [UUID(body["id"]) for body in bodies]
    zones = rows.zones(SERVICES[agent_type], agent_type, ids) if ids else {}
    for body, id in zip(bodies, ids, strict=True):
        body["availability_zones"] = sorted(zones.get(id, ()))
