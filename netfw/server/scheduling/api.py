"""API of assignments: sub-resources of agents, networks and routers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast
from uuid import UUID

from attrs import evolve

from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.errors import Conflict, NotFound
from netfw.errors.agents import (
    DVRL3CannotAssignToDvrAgent,
    InvalidDHCPAgent,
    InvalidL3Agent,
    NetworkHostedByDHCPAgent,
    NetworkNotHostedByDhcpAgent,
    RouterHostedByL3Agent,
    RouterL3AgentMismatch,
    RouterNotHostedByL3Agent,
    RouterSchedulingFailed,
)
from netfw.errors.registry import not_found
from netfw.model.agent import Agent
from netfw.model.resource import Kind, Ref, ref
from netfw.model.router import Router
from netfw.model.values.ids import NetworkId, RouterId
from netfw.server.core.resource_handler import Reader, ResourceHandler
from netfw.server.core.server_context import ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.router_roles import RouterRoleRows
from netfw.server.scheduling.choice import DVR, DVR_NO_EXTERNAL, ineligibility, max_agents, mode_of
from netfw.server.scheduling.dhcp import DhcpScheduler
from netfw.server.scheduling.ha_states import ha_state
from netfw.server.scheduling.routers import RouterScheduler

Scheduler = DhcpScheduler | RouterScheduler


class _Listing(ResourceHandler):
    """Lists the members of a parent, which a filter names; a member's id is
    ``<parent>/<member>``."""

    parent: ClassVar[str]
    """Name of the filter for the parent."""
    member: ClassVar[str]
    """Name of the listed resource."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def related(self, reader: Reader, parent: UUID) -> Sequence[UUID]:
        """Return the members of *parent*."""
        raise NotImplementedError

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        filters = dict(query.filters)
        ids: set[str] = set()
        for parent in filters.pop(self.parent, ()):
            ids |= set(map(str, self.related(reader, self._parent_id(str(parent)))))
        if "id" in filters:
            ids &= set(map(str, filters["id"]))
        return self._members().find(
            reader, requester, evolve(query, filters={**filters, "id": tuple(sorted(ids))})
        )

    def show(self, reader: Reader, requester: RequestContext, id: str) -> Body:
        parent, member = self._ids(id)
        if member not in self.related(reader, parent):
            raise not_found(self.member)(f"{self.member} {member} is not there")
        return self._members().show(reader, requester, str(member))

    def _ids(self, id: str) -> tuple[UUID, UUID]:
        """Return the ids of the parent and of the member that *id* consists of."""
        parent, _, member = id.partition("/")
        return self._parent_id(parent), _id(member, self.member)

    def _parent_id(self, text: str) -> UUID:
        return _id(text, self.parent.removesuffix("_id"))

    def _members(self) -> ResourceHandler:
        return self._context.handler(self.member)

    @property
    def _context(self) -> ServerContext:
        return self._scheduler.context


class _Servers(_Listing):
    """The agents that serve a network or router."""

    member: ClassVar[str] = "agent"
    kind: ClassVar[Kind]

    def related(self, reader: Reader, parent: UUID) -> Sequence[UUID]:
        target = Ref(self.kind, parent)
        if not reader.resources.present([target]):
            raise not_found(target.kind)(f"there is no {target}")
        hosts = self._scheduler.assignments.hosts(reader, target)
        return [
            each.id for each in self._scheduler.assignments.agents(reader) if each.host in hosts
        ]


class DhcpAgentHandler(_Servers):
    """The DHCP agents of a network."""

    name: ClassVar[str] = "dhcp_agent"
    parent: ClassVar[str] = "network_id"
    kind: ClassVar[Kind] = Kind.NETWORK


class L3AgentHandler(_Servers):
    """The L3 agents of a router."""

    name: ClassVar[str] = "l3_agent"
    parent: ClassVar[str] = "router_id"
    kind: ClassVar[Kind] = Kind.ROUTER

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        """Find the agents of a router with their ``ha_state``: null unless it is highly
        available."""
        found = super().find(reader, requester, query)
        (router,) = (self._parent_id(str(parent)) for parent in query.filters[self.parent])
        (row,) = reader.resources.present([Ref(Kind.ROUTER, router)])
        if not row.body["ha"]:
            return tuple({**body, "ha_state": None} for body in found)
        roles = RouterRoleRows(reader.connection).of([router])[router]
        return tuple(
            {**body, "ha_state": ha_state(roles.get(str(body["host"])), alive=bool(body["alive"]))}
            for body in found
        )


class _Served(_Listing):
    """The networks or routers that an agent serves."""

    parent: ClassVar[str] = "agent_id"
    invalid_agent: ClassVar[type[NotFound]]
    """The error for an agent of another type, or one that is switched off."""
    not_serving: ClassVar[type[Conflict]]
    """The error for what the agent does not serve."""

    def related(self, reader: Reader, parent: UUID) -> Sequence[UUID]:
        agent = cast(Agent, reader.resources.get(Kind.AGENT, parent).resource())
        if agent.agent_type != self._scheduler.agent_type:
            return ()
        return self._scheduler.assignments.at(reader, agent.host)

    def _agent(self, unit: UnitOfWork, id: UUID, *, useful: bool) -> Agent:
        agent = cast(Agent, unit.tx.resources.get(Kind.AGENT, id).resource())
        if agent.agent_type != self._scheduler.agent_type:
            raise self.invalid_agent(f"agent {id} is no {self._scheduler.agent_type}")
        if useful and not agent.admin_up:
            raise self.invalid_agent(f"the {agent.agent_type} on {agent.host} is switched off")
        return agent

    def _check_serving(self, unit: UnitOfWork, agent: Agent, target: Ref) -> None:
        if agent.host not in self._scheduler.assignments.hosts(unit.tx, target):
            raise self.not_serving(f"{target} is not with the {agent.agent_type} on {agent.host}")


class DhcpNetworkHandler(_Served):
    """The networks of a DHCP agent; administrators may add and remove them."""

    name: ClassVar[str] = "dhcp_network"
    member: ClassVar[str] = "network"
    invalid_agent = InvalidDHCPAgent
    not_serving = NetworkNotHostedByDhcpAgent

    def __init__(self, scheduler: DhcpScheduler) -> None:
        super().__init__(scheduler)
        self._dhcp = scheduler

    def create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        for body in bodies:
            agent = self._agent(unit, self._parent_id(str(body["agent_id"])), useful=True)
            network = unit.network(NetworkId(_id(str(body["network_id"]), self.member)), lock=True)
            if agent.host in self._dhcp.assignments.hosts(unit.tx, ref(network)):
                raise NetworkHostedByDHCPAgent(
                    f"the DHCP agent on {agent.host} serves network {network.id} already"
                )
            self._dhcp.assignments.assign_on_request(unit, ref(network), agent.host)
        return tuple(dict(body) for body in bodies)

    def delete(self, unit: UnitOfWork, id: str, revision: int | None = None) -> None:
        parent, member = self._ids(id)
        agent = self._agent(unit, parent, useful=False)
        network = unit.network(NetworkId(member), lock=True)
        self._check_serving(unit, agent, ref(network))
        self._dhcp.reserve_port(unit, network.id, agent.host)
        self._dhcp.assignments.unassign_on_request(unit, ref(network), agent)


class L3RouterHandler(_Served):
    """The routers of an L3 agent; administrators may add and remove them."""

    name: ClassVar[str] = "l3_router"
    member: ClassVar[str] = "router"
    invalid_agent = InvalidL3Agent
    not_serving = RouterNotHostedByL3Agent

    def create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Body, ...]:
        for body in bodies:
            agent = self._agent(unit, self._parent_id(str(body["agent_id"])), useful=True)
            router = _router(unit, _id(str(body["router_id"]), self.member))
            if reason := ineligibility(agent, router):
                is_distributed_only = mode_of(agent) in (DVR, DVR_NO_EXTERNAL)
                refuse = (
                    DVRL3CannotAssignToDvrAgent if is_distributed_only else RouterL3AgentMismatch
                )
                raise refuse(f"the L3 agent on {agent.host} cannot have it: {reason}")
            self._check_agent_count(unit, agent, router)
            self._scheduler.assignments.assign_on_request(unit, ref(router), agent.host)
        return tuple(dict(body) for body in bodies)

    def delete(self, unit: UnitOfWork, id: str, revision: int | None = None) -> None:
        parent, member = self._ids(id)
        agent, router = self._agent(unit, parent, useful=False), _router(unit, member)
        self._check_serving(unit, agent, ref(router))
        self._scheduler.assignments.unassign_on_request(unit, ref(router), agent)

    def _check_agent_count(self, unit: UnitOfWork, agent: Agent, router: Router) -> None:
        others = self._scheduler.assignments.hosts(unit.tx, ref(router)) - {agent.host}
        most = max_agents(self._context.settings.max_l3_agents_per_router)
        if not router.ha and others:
            raise RouterHostedByL3Agent(
                f"router {router.id} is with the L3 agent on {min(others)} already"
            )
        if router.ha and most <= len(others):
            raise RouterSchedulingFailed(f"router {router.id} is with {most} L3 agents already")


def _router(unit: UnitOfWork, id: UUID) -> Router:
    return cast(Router, unit.tx.resources.get(Kind.ROUTER, RouterId(id), lock=True).resource())


def _id(text: str, resource: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise not_found(resource)(f"there is no {resource} {text[:80]!r}") from None
