"""RouterScheduler: assigns routers to L3 agents."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import ClassVar, cast
from uuid import UUID

from attrs import field, frozen

from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Query
from netfw.drivers.values.subscription import Service
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, ref
from netfw.model.router import Router
from netfw.model.values.device_owner import is_router_attachment
from netfw.server.agents.agents import L3_AGENT
from netfw.server.core.resource_handler import Reader
from netfw.server.core.server_context import ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.assignments import AssignmentRows
from netfw.server.db.agents.excluded_hosts import ExcludedHosts
from netfw.server.db.database import ReadSnapshot
from netfw.server.db.resources.rows import AT_ONCE
from netfw.server.scheduling.assignments import AgentAssignments
from netfw.server.scheduling.choice import (
    DVR_SNAT,
    LEGACY,
    ineligibility,
    max_agents,
    mode_of,
    wanted_agents,
)
from netfw.server.scheduling.rescheduler import OrphanedAssignments, run_each_as_server

LOG = logging.getLogger(__name__)


@frozen
class RouterScheduler:
    """A router gets its agents with its first interface or gateway, and keeps them.

    It is not assigned to an agent that an administrator removed it from.

    Of a distributed router only the central part is assigned, and it exists while the router has a
    gateway. A plain router is moved from a dead agent only if configured: the agent may merely have
    lost its server, and two hosts would have the router.
    """

    agent_type: ClassVar[str] = L3_AGENT
    context: ServerContext
    assignments: AgentAssignments = field(init=False)
    orphaned: OrphanedAssignments = field(init=False)

    @assignments.default
    def _serving(self) -> AgentAssignments:
        return AgentAssignments(L3_AGENT, self.context.settings)

    @orphaned.default
    def _make_orphaned(self) -> OrphanedAssignments:
        return OrphanedAssignments(self.context, self.assignments)

    def watch(self, unit: UnitOfWork, change: Change) -> None:
        """Follow routers and their ports, inside their transactions."""
        match change.before, change.after:
            case Router() as router, None:
                self.assignments.unassign(unit, ref(router))
            case Router(ha=ha, distributed=distributed), Router() as router if (
                ha,
                distributed,
            ) != (router.ha, router.distributed):
                self._convert(unit, router)
            case Router() as before, Router(distributed=True, gateway=None) as router:
                if _had_gateway(before):  # and with it goes the central part
                    self.assignments.unassign(unit, ref(router))
            case before, Router() as router:
                if router.gateway is not None and not _had_gateway(before):
                    self._schedule(unit, router.id)
            case None, Port() as port if is_router_attachment(port.device_owner):
                self._schedule_owner(unit, port)
            case Port(device_id=former), Port() as port if former != port.device_id:
                if is_router_attachment(port.device_owner):
                    self._schedule_owner(unit, port)
            case _:
                pass

    def reconcile(self) -> int:
        """Remove routers from hosts without an agent, or whose agent got another mode, move plain
        ones from dead agents, if configured, and assign more agents to routers with ports that have
        too few.

        Each router is a transaction of its own. Return how many changed.
        """
        left = self.context.read(self.assignments.without_agent)
        changed = self._run_each(self._leave, sorted({each.ref.id for each in left}))
        changed += self._run_each(self._replace, self.context.read(self._misplaced))
        changed += self._run_each(self._move, self._abandoned())
        if self.context.read(
            lambda view: any(each.alive for each in self.assignments.agents(view))
        ):
            changed += self._run_each(self._schedule, self.context.read(self._waiting))
        return changed

    def schedule(self, unit: UnitOfWork, router: Router) -> tuple[str, ...]:
        """Assign the agents that *router* lacks, which is locked; return the new hosts."""
        most = self.context.settings.max_l3_agents_per_router
        return self.assignments.fill(
            unit,
            ref(router),
            lambda there_are: wanted_agents(router, most, there_are),
            zones=router.availability_zone_hints,
            fits=lambda agent: not ineligibility(agent, router),
        )

    def _convert(self, unit: UnitOfWork, router: Router) -> None:
        """Assign the agents of a router that became one of another kind."""
        hosts = self._leave_unfit_hosts(unit, router)
        if not router.ha and len(hosts) > 1:
            kept = self._host_of_plain(unit, router, hosts)
            self.assignments.unassign(unit, ref(router), *hosts - {kept})
        if find_routers_with_ports(unit.tx, [router.id]):
            self._schedule(unit, router.id)

    def _leave_unfit_hosts(self, unit: UnitOfWork, router: Router) -> frozenset[str]:
        """Remove *router* from hosts whose agents cannot have it; return the others."""
        hosts = self.assignments.hosts(unit.tx, ref(router))
        unfit = hosts
        if _needs_agent(router):
            known = self.assignments.agents(unit.tx) if hosts else ()
            unfit = hosts & {agent.host for agent in known if ineligibility(agent, router)}
        if unfit:
            self.assignments.unassign(unit, ref(router), *unfit)
        return hosts - unfit

    def _misplaced(self, view: ReadSnapshot) -> tuple[UUID, ...]:
        """Return the routers on hosts whose agents cannot have them any more."""
        modes = {agent.host: mode_of(agent) for agent in self.assignments.agents(view)}
        if all(mode == DVR_SNAT for mode in modes.values()):
            return ()
        query = Query(filters={"distributed": (True,)})
        distributed = {row.ref.id for row in view.resources.find(Kind.ROUTER, query)}
        found = {
            each.ref.id
            for each in AssignmentRows(view.connection).at(Service.L3)
            if (mode := modes.get(each.host, DVR_SNAT)) != DVR_SNAT
            and (mode != LEGACY or each.ref.id in distributed)
        }
        return tuple(sorted(found))

    def _replace(self, unit: UnitOfWork, id: UUID) -> bool:
        """Move a router from agents that cannot have it to others, if there are any."""
        router = _locked(unit, id)
        before = self.assignments.hosts(unit.tx, ref(router))
        if self._leave_unfit_hosts(unit, router) == before:
            return False
        LOG.warning("router %s: removed from L3 agents whose mode does not fit it any more", id)
        self._schedule(unit, id)
        return True

    def _host_of_plain(self, unit: UnitOfWork, router: Router, hosts: frozenset[str]) -> str:
        """Return the one of *hosts* that keeps *router*: one with a live agent, the active one, if
        there are such."""
        query = Query(filters={"device_id": (str(router.id),), "binding:host_id": tuple(hosts)})
        rows = unit.tx.resources.find(Kind.PORT, query)
        active = {
            row.body["binding:host_id"]
            for row in rows
            if is_router_attachment(row.body["device_owner"])
        }
        dead = self.assignments.dead(unit.tx)
        return min(hosts, key=lambda host: (host in dead, host not in active, host))

    def _schedule_owner(self, unit: UnitOfWork, port: Port) -> None:
        try:
            id = UUID(port.device_id)
        except ValueError:
            return  # the port names no router yet
        if unit.tx.resources.present([Ref(Kind.ROUTER, id)]):
            self._schedule(unit, id)

    def _schedule(self, unit: UnitOfWork, id: UUID) -> tuple[str, ...]:
        if not self.assignments.any(unit.tx):
            return ()
        router = _locked(unit, id)
        return self.schedule(unit, router) if _needs_agent(router) else ()

    def _waiting(self, view: ReadSnapshot) -> tuple[UUID, ...]:
        """Return the routers with ports that have fewer agents than they could.

        The database counts the agents of all; only those with too few are read.
        """
        alive = [agent for agent in self.assignments.agents(view) if agent.alive and agent.admin_up]
        most = self.context.settings.max_l3_agents_per_router
        with_gateways = sum(mode_of(agent) in (LEGACY, DVR_SNAT) for agent in alive)
        rows = AssignmentRows(view.connection)
        ids = rows.underserved_routers(min(max_agents(most), with_gateways))
        refs = [Ref(Kind.ROUTER, id) for id in ids]
        has = Counter(each.ref.id for each in rows.of(refs) if each.service is Service.L3)
        excluded = ExcludedHosts(view.connection, Service.L3).of_each(ids)
        lacking = []
        for row in view.resources.present(refs):
            router = cast(Router, row.resource())
            fitting = sum(
                not ineligibility(agent, router) and agent.host not in excluded.get(router.id, ())
                for agent in alive
            )
            if has[row.ref.id] < min(wanted_agents(router, most, fitting), fitting):
                lacking.append(row.ref.id)
        return tuple(sorted(find_routers_with_ports(view, lacking)))

    def _run_each(self, work: Callable[[UnitOfWork, UUID], object], routers: Iterable[UUID]) -> int:
        targets = (Ref(Kind.ROUTER, id) for id in routers)
        return run_each_as_server(self.context, work, targets)

    def _abandoned(self) -> tuple[UUID, ...]:
        """Return the routers of dead agents."""
        wanted = self.context.settings.allow_automatic_l3agent_failover
        return self.orphaned.find() if wanted else ()

    def _leave(self, unit: UnitOfWork, id: UUID) -> bool:
        """Remove a router from the hosts whose agent was deleted while it was scheduled."""
        target = ref(_locked(unit, id))
        left = self.assignments.without_agent(unit.tx)
        hosts = [each.host for each in left if each.ref == target]
        if hosts:
            self.assignments.unassign(unit, target, *hosts)
        return bool(hosts)

    def _move(self, unit: UnitOfWork, id: UUID) -> bool:
        """Move a router from a dead agent to a live one, if there is one.

        A highly available router stays: its other agents have it.
        """
        router = _locked(unit, id)
        serving = self.assignments.hosts(unit.tx, ref(router))
        dead = serving & self.assignments.dead(unit.tx) & self.orphaned.confirmed
        if router.ha or not dead:
            return False
        fresh = self.assignments.fill(
            unit,
            ref(router),
            lambda _: len(serving) + 1,
            zones=router.availability_zone_hints,
            fits=lambda agent: not ineligibility(agent, router),
        )
        if not fresh:
            return False
        LOG.warning("router %s: moved from the dead L3 agent on %s", id, ", ".join(sorted(dead)))
        self.assignments.unassign(unit, ref(router), *dead)
        return True


def find_routers_with_ports(reader: Reader, ids: Collection[UUID]) -> frozenset[UUID]:
    """Return those of the routers *ids* that have ports, by one statement per hundreds of ids."""
    wanted, found = sorted(map(str, ids)), set[UUID]()
    for at in range(0, len(wanted), AT_ONCE):
        query = Query(filters={"device_id": tuple(wanted[at : at + AT_ONCE])})
        found |= {
            UUID(row.body["device_id"])
            for row in reader.resources.find(Kind.PORT, query)
            if is_router_attachment(row.body["device_owner"])
        }
    return frozenset(found)


def _needs_agent(router: Router) -> bool:
    """Return whether *router* is assigned to agents at all: it has a central part, or no other."""
    return not router.distributed or router.gateway is not None


def _had_gateway(before: object) -> bool:
    return isinstance(before, Router) and before.gateway is not None


def _locked(unit: UnitOfWork, id: UUID) -> Router:
    return cast(Router, unit.tx.resources.get(Kind.ROUTER, id, lock=True).resource())
