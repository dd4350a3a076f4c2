"""Assignments of networks and routers to agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Subquery,
    case,
    delete,
    func,
    insert,
    or_,
    select,
)
from sqlalchemy.exc import IntegrityError

from netfw.drivers.values.subscription import Service
from netfw.model.resource import Kind, Ref
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.journal.journal import Journal
from netfw.server.db.journal.topics import TopicLinks, topic, topic_links
from netfw.server.db.resources.rows import AT_ONCE
from netfw.server.db.schema.resource_tables import STORED
from netfw.server.db.schema.tables import ASSIGNMENTS
from netfw.state.dependencies import AgentRoot, Assignment

AGENTS: Final = STORED[Kind.AGENT].table
ROUTERS: Final = STORED[Kind.ROUTER].table
SUBNETS: Final = STORED[Kind.SUBNET].table


def _count_hosts(service: Service) -> Subquery:
    """Return the number of hosts of each resource that a service has on any."""
    return (
        select(ASSIGNMENTS.c.resource_id, func.count().label("hosts"))
        .where(ASSIGNMENTS.c.service == service.value)
        .group_by(ASSIGNMENTS.c.resource_id)
        .subquery()
    )


class AssignmentRows:
    """Assignments, in one snapshot."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, refs: Iterable[Ref]) -> frozenset[Assignment]:
        """Return the assignments of *refs*."""
        ids = sorted(str(each.id) for each in refs)
        found: set[Assignment] = set()
        for at in range(0, len(ids), AT_ONCE):
            part = ids[at : at + AT_ONCE]
            found |= self._select(ASSIGNMENTS.c.resource_id.in_(part))
        return frozenset(found)

    def at(self, service: Service, host: str | None = None) -> frozenset[Assignment]:
        """Return the assignments of a service, on one host or on all."""
        conditions = [ASSIGNMENTS.c.service == service.value]
        if host is not None:
            conditions.append(ASSIGNMENTS.c.host == host)
        return self._select(*conditions)

    def without_agent(self, service: Service, agent_type: str) -> frozenset[Assignment]:
        """Return the assignments of a service to hosts that have no agent of its type."""
        hosts = select(AGENTS.c.host).where(AGENTS.c.agent_type == agent_type)
        return self._select(
            ASSIGNMENTS.c.service == service.value, ASSIGNMENTS.c.host.not_in(hosts)
        )

    def loads(self, service: Service) -> Mapping[str, int]:
        """Return the number of assignments of each host that has any."""
        rows = (
            select(ASSIGNMENTS.c.host, func.count())
            .where(ASSIGNMENTS.c.service == service.value)
            .group_by(ASSIGNMENTS.c.host)
        )
        return {row[0]: int(row[1]) for row in self._connection.execute(rows)}

    def unserved(self, wanted: int) -> tuple[UUID, ...]:
        """Return the networks with DHCP that fewer than *wanted* hosts serve."""
        counts = _count_hosts(Service.DHCP)
        rows = (
            select(SUBNETS.c.network_id)
            .distinct()
            .outerjoin(counts, counts.c.resource_id == SUBNETS.c.network_id)
            .where(SUBNETS.c.enable_dhcp.is_(True), func.coalesce(counts.c.hosts, 0) < wanted)
            .order_by(SUBNETS.c.network_id)
        )
        return tuple(UUID(id) for id in self._connection.execute(rows).scalars())

    def underserved_routers(self, wanted_ha: int) -> tuple[UUID, ...]:
        """Return the routers to be assigned that no L3 agent has; highly available ones, too, that
        fewer than *wanted_ha* have."""
        counts = _count_hosts(Service.L3)
        is_assigned = or_(
            ROUTERS.c.distributed.is_(False), ROUTERS.c.gateway_network_id.is_not(None)
        )
        wanted = case((ROUTERS.c.ha.is_(True), wanted_ha), else_=1)
        rows = (
            select(ROUTERS.c.id)
            .outerjoin(counts, counts.c.resource_id == ROUTERS.c.id)
            .where(is_assigned, func.coalesce(counts.c.hosts, 0) < wanted)
        )
        return tuple(UUID(id) for id in self._connection.execute(rows).scalars())

    def zones(
        self, service: Service, agent_type: str, ids: Iterable[UUID]
    ) -> Mapping[UUID, set[str]]:
        """Return the zones of the agents that serve each of *ids*."""
        wanted, found = sorted(map(str, ids)), dict[UUID, set[str]]()
        rows = (
            select(ASSIGNMENTS.c.resource_id, AGENTS.c.availability_zone)
            .join(AGENTS, AGENTS.c.host == ASSIGNMENTS.c.host)
            .where(
                ASSIGNMENTS.c.service == service.value,
                AGENTS.c.agent_type == agent_type,
                AGENTS.c.availability_zone.is_not(None),
            )
        )
        for at in range(0, len(wanted), AT_ONCE):
            some = ASSIGNMENTS.c.resource_id.in_(wanted[at : at + AT_ONCE])
            for id, zone in self._connection.execute(rows.where(some)):
                found.setdefault(UUID(id), set()).add(zone)
        return found

    def _select(self, *conditions: ColumnElement[bool]) -> frozenset[Assignment]:
        rows = self._connection.execute(select(ASSIGNMENTS).where(*conditions))
        return frozenset(
            Assignment(Service(row.service), row.host, Ref(Kind(row.kind), UUID(row.resource_id)))
            for row in rows
        )


class Assignments(AssignmentRows):
    """Assignments, in one transaction."""

    def __init__(
        self,
        connection: Connection,
        journal: Journal,
        on_change: Callable[[TopicLinks, TopicLinks], None],
    ) -> None:
        super().__init__(connection)
        self._journal, self._on_change = journal, on_change

    def add(self, new: Assignment) -> None:
        """Add an assignment.  Idempotent."""
        if new in self.of([new.ref]):
            return
        row = {
            "service": new.service.value,
            "host": new.host,
            "resource_id": str(new.ref.id),
            "kind": new.ref.kind.value,
        }
        try:
            self._connection.execute(insert(ASSIGNMENTS).values(row))
        except IntegrityError as exc:
            raise RetryTransaction(f"another transaction assigned the same to {new.host}") from exc
        self._record(None, new)

    def remove(self, old: Assignment) -> None:
        """Remove an assignment.  Idempotent."""
        gone = delete(ASSIGNMENTS).where(
            ASSIGNMENTS.c.service == old.service.value,
            ASSIGNMENTS.c.host == old.host,
            ASSIGNMENTS.c.resource_id == str(old.ref.id),
        )
        if self._connection.execute(gone).rowcount:
            self._record(old, None)

    def _record(self, before: Assignment | None, after: Assignment | None) -> None:
        for each in (before, after):
            if each is not None:
                self._journal.note(each.ref, [topic(AgentRoot(each.service, each.host))])
        self._on_change(topic_links(before), topic_links(after))
