"""Heartbeats: when agents last reported, by the clock of the database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast
from uuid import UUID

from attrs import frozen
from sqlalchemy import (
    BigInteger,
    Connection,
    Select,
    bindparam,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from netfw.model.agent import Agent
from netfw.model.resource import Kind
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.engine.prepared import Prepared
from netfw.server.db.resources.row import value
from netfw.server.db.schema.resource_tables import STORED
from netfw.server.db.schema.tables import HEARTBEATS


class Now(FunctionElement[int]):
    """Milliseconds since 1970 by the clock of the database."""

    inherit_cache = True
    type = BigInteger()


@compiles(Now, "sqlite")
def _sqlite(*_: Any, **__: Any) -> str:
    return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"


@compiles(Now, "postgresql")
def _postgresql(*_: Any, **__: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"


@compiles(Now, "mysql", "mariadb")
def _mariadb(*_: Any, **__: Any) -> str:
    return "CAST(unix_timestamp(sysdate(3)) * 1000 AS SIGNED)"


_RESYNC: Final = "resync"
"""Instead of a digest: the next heartbeat is answered with a request to read everything."""

REFRESH: Final = (
    update(HEARTBEATS)
    .where(
        HEARTBEATS.c.agent_id == bindparam("agent"),
        HEARTBEATS.c.state_digest == bindparam("known"),
        HEARTBEATS.c.at >= Now() - bindparam("within"),
    )
    .values(at=Now(), counts=bindparam("counted"))
)


@frozen(kw_only=True)
class AgentHeartbeat:
    """The last heartbeat of an agent; times are those of the database."""

    at: datetime
    silence: float
    """Seconds since then."""
    started: datetime | None
    state_digest: str
    """Digest of the agent's state report without its counts."""
    counts: Mapping[str, int]

    @property
    def is_resync_due(self) -> bool:
        """Whether `Heartbeats.request_resync` was called since."""
        return self.state_digest == _RESYNC


class Heartbeats:
    """The heartbeats of agents, in one transaction or snapshot."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def record(
        self,
        agent: UUID,
        *,
        state_digest: str = "",
        counts: Mapping[str, int] | None = None,
        start: bool = False,
    ) -> None:
        """Record a heartbeat of *agent*.  It is no change of the agent and has no journal entry."""
        same = HEARTBEATS.c.agent_id == str(agent)
        row: dict[str, Any] = {
            "at": Now(),
            "state_digest": state_digest,
            "counts": _text(counts or {}),
        }
        if start:
            row["started"] = Now()
        if self._connection.execute(update(HEARTBEATS).where(same).values(row)).rowcount:
            return
        row |= {"agent_id": str(agent), "started": Now()}
        try:
            self._connection.execute(insert(HEARTBEATS).values(row))
        except IntegrityError as exc:
            raise RetryTransaction("another transaction recorded the agent first") from exc

    def refresh(
        self, agent: UUID, *, state_digest: str, counts: Mapping[str, int], within: float
    ) -> bool:
        """Record a heartbeat if *agent* had the same digest within the last *within* seconds.

        Return whether it had.  One statement, since each agent reports every half minute.
        """
        values = {
            "agent": str(agent),
            "known": state_digest,
            "within": int(within * 1000),
            "counted": _text(counts),
        }
        return bool(self._connection.execute(REFRESH, values).rowcount)

    def request_resync(self, agent: UUID) -> None:
        """Have the next heartbeat of *agent* be answered with a resync; `refresh` skips it."""
        same = HEARTBEATS.c.agent_id == str(agent)
        self._connection.execute(update(HEARTBEATS).where(same).values(state_digest=_RESYNC))

    def delete(self, agent: UUID) -> None:
        """Delete the heartbeat of a deleted agent."""
        self._connection.execute(delete(HEARTBEATS).where(HEARTBEATS.c.agent_id == str(agent)))

    def silent_for(self, agents: Iterable[UUID] | None = None) -> Mapping[UUID, float]:
        """Return the seconds since the last heartbeat of each of *agents*, or of all agents."""
        rows = _restrict(select(HEARTBEATS.c.agent_id, Now() - HEARTBEATS.c.at), agents)
        found = self._connection.execute(rows)
        return {UUID(id): _seconds(silence) for id, silence in found}

    def latest(self, agents: Iterable[UUID] | None = None) -> Mapping[UUID, AgentHeartbeat]:
        """Return the last heartbeat of each of *agents*, or of all agents."""
        rows = _restrict(select(HEARTBEATS, (Now() - HEARTBEATS.c.at).label("silence")), agents)
        return {UUID(row.agent_id): _heartbeat(row) for row in self._connection.execute(rows)}


def _restrict(rows: Select[Any], agents: Iterable[UUID] | None) -> Select[Any]:
    if agents is None:
        return rows
    return rows.where(HEARTBEATS.c.agent_id.in_([str(agent) for agent in agents]))


def _heartbeat(row: Any) -> AgentHeartbeat:
    return AgentHeartbeat(
        at=_datetime(row.at),
        silence=_seconds(row.silence),
        started=None if row.started is None else _datetime(row.started),
        state_digest=row.state_digest,
        counts=json.loads(row.counts),
    )


def _seconds(milliseconds: int) -> float:
    return max(0.0, float(milliseconds) / 1000)


def _datetime(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(int(milliseconds) // 1000, UTC)


def _text(counts: Mapping[str, int]) -> str:
    return json.dumps(dict(counts), separators=(",", ":"), sort_keys=True)


_AGENTS: Final = STORED[Kind.AGENT].table
SELECT_AGENTS_OF_HOSTS: Final = Prepared(
    select(_AGENTS.c.host, _AGENTS.c.body, HEARTBEATS.c.at, (Now() - HEARTBEATS.c.at).label("ago"))
    .select_from(_AGENTS.outerjoin(HEARTBEATS, HEARTBEATS.c.agent_id == _AGENTS.c.id))
    .where(_AGENTS.c.host.in_(bindparam("hosts", expanding=True)))
    .order_by(_AGENTS.c.id)
)


@frozen(kw_only=True)
class AgentWithAge:
    """A stored agent and its last heartbeat by the clock of the database."""

    agent: Agent
    at: float | None
    """Seconds since 1970; ``None``: no heartbeat yet."""
    silence: float | None
    """Seconds since then."""

    @classmethod
    def of(cls, agent: Agent, at: int | None, ago: int | None) -> AgentWithAge:
        """Return *agent* with its times in milliseconds."""
        if at is None or ago is None:
            return cls(agent=agent, at=None, silence=None)
        return cls(agent=agent, at=at / 1000, silence=max(0.0, float(ago) / 1000))


def agents_on(connection: Connection, hosts: Iterable[str]) -> dict[str, list[AgentWithAge]]:
    """Return the agents of each of *hosts*."""
    wanted = sorted(set(hosts))
    agents: dict[str, list[AgentWithAge]] = {host: [] for host in wanted}
    for row in SELECT_AGENTS_OF_HOSTS.all(connection, {"hosts": wanted}):
        agent = cast(Agent, value(Kind.AGENT, row.body))
        agents[row.host].append(AgentWithAge.of(agent, row.at, row.ago))
    return agents
