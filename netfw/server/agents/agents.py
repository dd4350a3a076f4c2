"""AgentHandler and ZoneHandler: agents with their liveness, and their availability zones."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, ClassVar, Final, cast
from uuid import UUID

from attrs import evolve

from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.values.subscription import Service
from netfw.errors import InvalidInput, NotSupported
from netfw.model.agent import Agent
from netfw.model.resource import Kind
from netfw.server.agents.agent_gateway_ports import release_host_resources
from netfw.server.agents.tunnel_claims import release_tunnel_addresses
from netfw.server.core.resource_handler import (
    Reader,
    ResourceHandler,
    StoredResourceHandler,
    apply_query,
)
from netfw.server.core.settings import Settings
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.assignments import AssignmentRows
from netfw.server.db.agents.excluded_hosts import ExcludedHosts
from netfw.server.db.agents.heartbeats import AgentHeartbeat

DHCP_AGENT: Final = "DHCP agent"
L3_AGENT: Final = "L3 agent"
SERVICES: Final[Mapping[str, Service]] = {DHCP_AGENT: Service.DHCP, L3_AGENT: Service.L3}
"""Service of an agent type."""


def agents(reader: Reader, settings: Settings, **filters: str) -> tuple[Agent, ...]:
    """Return the agents that match *filters* (``host``, ``agent_type``), with their liveness.

    Two statements at most, however many there are.
    """
    query = Query(filters={name: (value,) for name, value in filters.items()})
    found = [cast(Agent, row.resource()) for row in reader.resources.find(Kind.AGENT, query)]
    if not found:
        return ()
    heartbeats = reader.heartbeats.latest([agent.id for agent in found] if filters else None)
    return tuple(_with_liveness(agent, heartbeats.get(agent.id), settings) for agent in found)


class AgentHandler(StoredResourceHandler[Agent]):
    """Agents register by heartbeats; administrators switch them off, describe and delete them.

    Liveness is computed on reading, by the clock of the database.
    """

    name: ClassVar[str] = "agent"
    kind: ClassVar[Kind] = Kind.AGENT
    quota: ClassVar[str | None] = None

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[Agent, ...]:
        raise NotSupported("agents register by heartbeats: start one, and it appears")

    def do_update(self, unit: UnitOfWork, before: Agent, body: Body) -> Agent:
        admin_up = cast(bool, body.get("admin_state_up", before.admin_up))
        description = cast(str | None, body.get("description", before.description)) or ""
        after = unit.update(before, evolve(before, admin_up=admin_up, description=description))
        if after.admin_up and not before.admin_up:
            unit.tx.heartbeats.request_resync(after.id)
            known = _with_liveness(
                after, self._heartbeats(unit.tx, [after.id]).get(after.id), self._settings
            )
            for hook in unit.context.agent_up_hooks if known.alive else ():
                hook(unit, known)
        return after

    def do_delete(self, unit: UnitOfWork, before: Agent) -> None:
        """Delete *before* with its assignments and what its host has for it; a live agent registers
        again with its next heartbeat."""
        service = SERVICES.get(before.agent_type)
        if service is not None:
            for each in AssignmentRows(unit.tx.connection).at(service, before.host):
                unit.tx.assignments.remove(each)
            ExcludedHosts(unit.tx.connection, service).remove_host(before.host)
        unit.tx.heartbeats.delete(before.id)
        unit.delete(before)
        release_tunnel_addresses(unit, before.host)
        release_host_resources(unit, before)

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        if "alive" in query.filters:
            query = evolve(query, filters=self._by_id(reader, query.filters))
        return super().find(reader, requester, query)

    def decorate(
        self, reader: Reader, requester: RequestContext, bodies: Sequence[MutableMapping[str, Any]]
    ) -> None:
        heartbeats = self._heartbeats(reader, [UUID(body["id"]) for body in bodies])
        for body in bodies:
            heartbeat = heartbeats.get(UUID(body["id"]))
            body["alive"] = _alive(heartbeat, self._settings)
            if heartbeat is not None:
                body["configurations"] = {**body["configurations"], **heartbeat.counts}
                body["heartbeat_timestamp"] = _render_time(heartbeat.at)
                body["started_at"] = _render_time(heartbeat.started)

    def _by_id(self, reader: Reader, filters: Mapping[str, Any]) -> dict[str, Any]:
        """Return *filters* with the ids of live, or dead, agents instead of ``alive``."""
        rest = {name: values for name, values in filters.items() if name != "alive"}
        wanted = {_flag(value) for value in filters["alive"]}
        heartbeats = reader.heartbeats.latest()
        found = [row.ref.id for row in reader.resources.find(Kind.AGENT, Query(filters=rest))]
        alive = {id: _alive(heartbeats.get(id), self._settings) for id in found}
        return {**rest, "id": tuple(str(id) for id in found if alive[id] in wanted)}

    @staticmethod
    def _heartbeats(reader: Reader, ids: Sequence[UUID]) -> Mapping[UUID, AgentHeartbeat]:
        return reader.heartbeats.latest(ids if len(ids) < MANY else None)


MANY: Final = 100
"""Number of agents from which reading all heartbeats is quicker."""


def _flag(value: object) -> bool:
    flags = {"true": True, "false": False}
    known = flags.get(str(value).lower())
    if known is None:
        raise InvalidInput({"alive": f"{value!r} is neither true nor false"})
    return known


def _alive(heartbeat: AgentHeartbeat | None, settings: Settings) -> bool:
    return heartbeat is not None and heartbeat.silence <= settings.agent_down_time


def _with_liveness(agent: Agent, heartbeat: AgentHeartbeat | None, settings: Settings) -> Agent:
    if heartbeat is None:
        return evolve(agent, alive=False)
    return evolve(
        agent,
        alive=_alive(heartbeat, settings),
        heartbeat_at=heartbeat.at,
        started_at=heartbeat.started,
    )


def _render_time(reader: datetime | None) -> str | None:
    """Render a time in the format that clients expect of agents."""
    return None if reader is None else reader.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


SCHEDULED: Final[Mapping[str, str]] = MappingProxyType({DHCP_AGENT: "network", L3_AGENT: "router"})
"""Resource that is scheduled to agents of a type."""


class ZoneHandler(ResourceHandler):
    """Zones of DHCP agents, for networks, and of L3 agents, for routers.

    A zone is available while an agent there is alive and switched on.
    """

    name: ClassVar[str] = "availability_zone"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def find(self, reader: Reader, requester: RequestContext, query: Query) -> tuple[Body, ...]:
        useful: dict[tuple[str, str], bool] = {}
        for agent in agents(reader, self._settings):
            what = SCHEDULED.get(agent.agent_type)
            if what is not None and agent.availability_zone:
                key = agent.availability_zone, what
                useful[key] = useful.get(key, False) or (agent.alive and agent.admin_up)
        zones: list[Body] = [
            {"name": name, "resource": what, "state": "available" if useful else "unavailable"}
            for (name, what), useful in sorted(useful.items())
        ]
        return apply_query(zones, query, "name")
