"""Agents by host, each with how long it has been silent, in one statement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from attrs import frozen
from sqlalchemy import Connection, bindparam, select

from netfw.model.agent import Agent
from netfw.model.resource import Kind
from netfw.server.db.agents.heartbeats import Now
from netfw.server.db.engine.prepared import Prepared
from netfw.server.db.resources.rows import value
from netfw.server.db.schema.resource_tables import STORED
from netfw.server.db.schema.tables import HEARTBEATS

_AGENTS: Final = STORED[Kind.AGENT].table
ON_HOSTS: Final = Prepared(
    select(_AGENTS.c.host, _AGENTS.c.body, HEARTBEATS.c.at, (Now() - HEARTBEATS.c.at).label("ago"))
    .select_from(_AGENTS.outerjoin(HEARTBEATS, HEARTBEATS.c.agent_id == _AGENTS.c.id))
    .where(_AGENTS.c.host.in_(bindparam("hosts", expanding=True)))
    .order_by(_AGENTS.c.id)
)


@frozen(kw_only=True)
class AgentWithAge:
    """An agent as it is stored, and when it was last heard of by the clock of the database."""

    agent: Agent
    at: float | None
    """Seconds since 1970; ``None``: never."""
    silence: float | None
    """Seconds since then."""


def agents_on(connection: Connection, hosts: Iterable[str]) -> dict[str, list[AgentWithAge]]:
    """The agents of each of *hosts*."""
    wanted = sorted(set(hosts))
    found: dict[str, list[AgentWithAge]] = {host: [] for host in wanted}
    for row in ON_HOSTS.all(connection, {"hosts": wanted}):
        heard = row.at is not None
        found[row.host].append(
            AgentWithAge(
                agent=cast(Agent, value(Kind.AGENT, row.body)),
                at=row.at / 1000 if heard else None,
                silence=max(0.0, float(row.ago) / 1000) if heard else None,
            )
        )
    return found
