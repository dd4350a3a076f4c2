"""ServingAgents: the agents of one service, and what is assigned to them, in a transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from typing import Any
from uuid import UUID

from attrs import field, frozen

from netfw.drivers.interest import Service
from netfw.messaging.reach import Assignment
from netfw.model.agent import Agent
from netfw.model.resource import Ref
from netfw.server.db.assignments import AssignmentRows
from netfw.server.plugin.agents import SERVICES, agents
from netfw.server.plugin.keeper import Moment
from netfw.server.plugin.scheduling import Candidate, candidates, choose
from netfw.server.plugin.settings import Settings
from netfw.server.plugin.unit import Unit


@frozen
class ServingAgents:
    """The agents of one type, which serve what is assigned to their hosts."""

    agent_type: str
    settings: Settings
    service: Service = field(init=False)

    @service.default
    def _service(self) -> Service:
        return SERVICES[self.agent_type]

    def known(self, moment: Moment) -> tuple[Agent, ...]:
        """All of them, dead ones included."""
        return agents(moment, self.settings, agent_type=self.agent_type)

    def dead(self, moment: Moment) -> frozenset[str]:
        """The hosts of those that are dead."""
        return frozenset(agent.host for agent in self.known(moment) if not agent.alive)

    def hosts(self, moment: Moment, target: Ref) -> frozenset[str]:
        """Those that serve *target*."""
        found = AssignmentRows(moment.connection).of([target])
        return frozenset(each.host for each in found if each.service is self.service)

    def at(self, moment: Moment, host: str) -> tuple[UUID, ...]:
        """What a host serves."""
        found = AssignmentRows(moment.connection).at(self.service, host)
        return tuple(sorted(each.ref.id for each in found))

    def fill(
        self,
        unit: Unit,
        target: Ref,
        wanted: Callable[[int], int],
        *,
        zones: Collection[str] = (),
        fits: Callable[[Agent], bool] = lambda agent: True,
    ) -> tuple[str, ...]:
        """Have more agents serve *target* where too few do; the hosts that are new.

        *target* is locked, so that nobody else does the same.  *wanted* is asked with the number of
        agents that could serve it.
        """
        serving = self.hosts(unit.tx, target)
        known = [agent for agent in self.known(unit.tx) if fits(agent)]
        loads = AssignmentRows(unit.tx.connection).loads(self.service)
        offered = candidates(known, loads)
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
        for host in chosen:
            self.assign(unit, target, host)
        return chosen

    def assign(self, unit: Unit, target: Ref, host: str) -> None:
        """Have *host* serve *target*."""
        unit.tx.assignments.add(Assignment(self.service, host, target))

    def relieve(self, unit: Unit, target: Ref, *hosts: str) -> None:
        """Have *hosts*, or everybody if none are named, no longer serve *target*."""
        for host in sorted(hosts or self.hosts(unit.tx, target)):
            unit.tx.assignments.remove(Assignment(self.service, host, target))

    def add_zones(self, moment: Moment, bodies: Sequence[MutableMapping[str, Any]]) -> None:
        """Add to *bodies* the zones in which they are served, by one statement."""
        zones = self._zones(moment, (UUID(body["id"]) for body in bodies))
        for body in bodies:
            body["availability_zones"] = sorted(zones.get(UUID(body["id"]), ()))

    def _zones(self, moment: Moment, ids: Iterable[UUID]) -> Mapping[UUID, set[str]]:
        rows = AssignmentRows(moment.connection)
        return rows.zones(self.service, self.agent_type, ids)
