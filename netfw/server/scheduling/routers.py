"""RouterScheduler: which L3 agents have which routers."""

from __future__ import annotations

import logging
from collections import Counter
from typing import ClassVar, cast
from uuid import UUID

from attrs import field, frozen

from netfw.drivers.change import Change
from netfw.drivers.query import Query
from netfw.drivers.subscription import Service
from netfw.model.device_owner import is_router_port
from netfw.model.ids import RouterId
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, ref
from netfw.model.router import Router
from netfw.server.agents.agents import L3_AGENT
from netfw.server.core.context import ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.assignments import AssignmentRows
from netfw.server.db.database import ReadSnapshot
from netfw.server.scheduling.assignments import AgentAssignments
from netfw.server.scheduling.choice import obstacle, wanted_agents
from netfw.server.scheduling.rescheduler import OrphanedAssignments, run_as_server

LOG = logging.getLogger(__name__)


@frozen
class RouterScheduler:
    """A router gets its agents when it first leads somewhere, and keeps them.

    Of a distributed router only the central part is somewhere, and there is one when it has a
    gateway.  A plain router is taken from a dead agent only where the operator wants that: the
    agent may merely have lost its server, and the router would be there twice.
    """

    agent_type: ClassVar[str] = L3_AGENT
    backbone: ServerContext
    serving: AgentAssignments = field(init=False)
    abandonment: OrphanedAssignments = field(init=False)

    @serving.default
    def _serving(self) -> AgentAssignments:
        return AgentAssignments(L3_AGENT, self.backbone.settings)

    @abandonment.default
    def _abandonment(self) -> OrphanedAssignments:
        return OrphanedAssignments(self.backbone, self.serving)

    def watch(self, unit: UnitOfWork, change: Change) -> None:
        """Follow routers and their ports, in their transactions."""
        match change.before, change.after:
            case Router() as router, None:
                self.serving.relieve(unit, ref(router))
            case before, Router() as router:
                if router.gateway is not None and not _had_gateway(before):
                    self._schedule(unit, router.id)
            case None, Port() as port if is_router_port(port.device_owner):
                self._schedule_owner(unit, port)
            case Port(device_id=former), Port() as port if former != port.device_id:
                if is_router_port(port.device_owner):
                    self._schedule_owner(unit, port)
            case _:
                pass

    def mend(self) -> int:
        """Take plain routers from dead agents, if the operator wants that, and give agents to
        routers that lead somewhere and have too few.

        Each router is a transaction of its own.  Returns how many there were to change.
        """
        changed = sum(map(self._move, self._abandoned()))
        if self.backbone.read(lambda view: any(each.alive for each in self.serving.known(view))):
            changed += sum(map(self._serve, self.backbone.read(self._waiting)))
        return changed

    def schedule(self, unit: UnitOfWork, router: Router) -> tuple[str, ...]:
        """Have as many agents as it needs have *router*, which is locked; those that are new."""
        most = self.backbone.settings.max_l3_agents_per_router
        return self.serving.fill(
            unit,
            ref(router),
            lambda there_are: wanted_agents(router, most, there_are),
            zones=router.availability_zone_hints,
            fits=lambda agent: not obstacle(agent, router),
        )

    def _schedule_owner(self, unit: UnitOfWork, port: Port) -> None:
        try:
            id = UUID(port.device_id)
        except ValueError:
            return  # it is about to become a router's
        if unit.tx.resources.present([Ref(Kind.ROUTER, id)]):
            self._schedule(unit, RouterId(id))

    def _schedule(self, unit: UnitOfWork, id: RouterId) -> tuple[str, ...]:
        if not self.serving.any(unit.tx):
            return ()
        router = _locked(unit, id)
        if router.distributed and router.gateway is None:
            return ()
        return self.schedule(unit, router)

    def _waiting(self, view: ReadSnapshot) -> tuple[UUID, ...]:
        """The routers that lead somewhere, and have fewer agents than they could."""
        rows = view.resources.find(Kind.ROUTER, Query())
        served = AssignmentRows(view.connection).at(Service.L3)
        has = Counter(each.ref.id for each in served)
        alive = [agent for agent in self.serving.known(view) if agent.alive and agent.admin_up]
        most = self.backbone.settings.max_l3_agents_per_router
        lacking = []
        for row in rows:
            if has[row.ref.id] and not row.body["ha"]:
                continue
            router = cast(Router, row.resource())
            fitting = sum(not obstacle(agent, router) for agent in alive)
            if has[row.ref.id] < min(wanted_agents(router, most, fitting), fitting):
                lacking.append(row.ref.id)
        return tuple(sorted(self._leading(view, lacking)))

    @staticmethod
    def _leading(view: ReadSnapshot, ids: list[UUID]) -> set[UUID]:
        """Those of *ids* that lead somewhere."""
        found: set[UUID] = set()
        if not ids:
            return found
        legs = Query(filters={"device_id": tuple(map(str, ids))})
        for row in view.resources.find(Kind.PORT, legs):
            if is_router_port(row.body["device_owner"]):
                found.add(UUID(row.body["device_id"]))
        return found

    def _serve(self, router: UUID) -> bool:
        return run_as_server(self.backbone, lambda unit: self._schedule(unit, RouterId(router)))

    def _abandoned(self) -> tuple[UUID, ...]:
        """The routers of dead agents."""
        wanted = self.backbone.settings.allow_automatic_l3agent_failover
        return self.abandonment.found() if wanted else ()

    def _move(self, router: UUID) -> bool:
        return run_as_server(self.backbone, lambda unit: self._moved(unit, RouterId(router)))

    def _moved(self, unit: UnitOfWork, id: RouterId) -> bool:
        """Give a router of a dead agent to one that is alive, if there is one.

        A highly available one stays: the others have it.
        """
        router = _locked(unit, id)
        serving = self.serving.hosts(unit.tx, ref(router))
        dead = serving & self.serving.dead(unit.tx)
        if router.ha or not dead:
            return False
        fresh = self.serving.fill(
            unit,
            ref(router),
            lambda _: len(serving) + 1,
            zones=router.availability_zone_hints,
            fits=lambda agent: not obstacle(agent, router),
        )
        if not fresh:
            return False
        LOG.warning("router %s is taken from the dead L3 agent on %s", id, ", ".join(sorted(dead)))
        self.serving.relieve(unit, ref(router), *dead)
        return True


def _had_gateway(before: object) -> bool:
    return isinstance(before, Router) and before.gateway is not None


def _locked(unit: UnitOfWork, id: RouterId) -> Router:
    return cast(Router, unit.tx.resources.get(Kind.ROUTER, id, lock=True).resource())
