"""Agents that a transaction relies on: none of them changes before it ends."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, cast

from sqlalchemy import Connection, bindparam, select

from netfw.model.agent import Agent
from netfw.model.resource import Kind
from netfw.server.db.resources.row import value
from netfw.server.db.resources.rows import AT_ONCE
from netfw.server.db.schema.resource_tables import STORED

_AGENTS: Final = STORED[Kind.AGENT].table
SELECT_FOR_SHARE: Final = (
    select(_AGENTS.c.body)
    .where(
        _AGENTS.c.host.in_(bindparam("hosts", expanding=True)),
        _AGENTS.c.agent_type == bindparam("of_type"),
    )
    .order_by(_AGENTS.c.id)
    .with_for_update(read=True)
)


def agents_for_share(
    connection: Connection, agent_type: str, hosts: Collection[str]
) -> tuple[Agent, ...]:
    """Return the agents of a type on *hosts*; a transaction that changes one waits for this one.

    Others that only rely on them do not wait.
    """
    wanted, found = sorted(hosts), []
    for at in range(0, len(wanted), AT_ONCE):
        values = {"hosts": wanted[at : at + AT_ONCE], "of_type": agent_type}
        bodies = connection.execute(SELECT_FOR_SHARE, values).scalars()
        found += [cast(Agent, value(Kind.AGENT, body)) for body in bodies]
    return tuple(found)
