"""When agents were last heard of, by the clock of the database: that of no single server counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import ColumnElement

from netfw.server.db.failure import Overtaken
from netfw.server.db.schema import HEARTBEATS


class Now(ColumnElement[int]):
    """Milliseconds since 1970, as the database has them."""

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


class Heartbeats:
    """How long ago agents were heard of."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def heard(self, agent: UUID) -> None:
        """Note that *agent* is alive now.  It is no change of the agent, and in no journal."""
        same = HEARTBEATS.c.agent_id == str(agent)
        if self._connection.execute(update(HEARTBEATS).where(same).values(at=Now())).rowcount:
            return
        try:
            self._connection.execute(insert(HEARTBEATS).values(agent_id=str(agent), at=Now()))
        except IntegrityError as exc:
            raise Overtaken("another transaction heard of the agent first") from exc

    def forget(self, agent: UUID) -> None:
        """Forget an agent that was deleted."""
        self._connection.execute(delete(HEARTBEATS).where(HEARTBEATS.c.agent_id == str(agent)))

    def silent_for(self, agents: Iterable[UUID] | None = None) -> Mapping[UUID, float]:
        """Seconds since each of *agents*, or each there is, was heard of; never: not in it."""
        rows = select(HEARTBEATS.c.agent_id, Now() - HEARTBEATS.c.at)
        if agents is not None:
            rows = rows.where(HEARTBEATS.c.agent_id.in_([str(agent) for agent in agents]))
        found = self._connection.execute(rows)
        return {UUID(id): max(0.0, float(silence) / 1000) for id, silence in found}
