"""Tunnel addresses: the host that advertises each."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, cast

from sqlalchemy import Connection, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from netfw.model.agent import Agent
from netfw.model.resource import Kind
from netfw.model.values.address import IpAddress
from netfw.server.db.agents.heartbeats import Now
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.resources.row import value
from netfw.server.db.schema.resource_tables import STORED
from netfw.server.db.schema.tables import HEARTBEATS, TUNNEL_ADDRESSES

_AGENTS: Final = STORED[Kind.AGENT].table
SELECT_LIVE_AGENTS_FOR_SHARE: Final = (
    select(_AGENTS.c.body)
    .join(HEARTBEATS, HEARTBEATS.c.agent_id == _AGENTS.c.id)
    .where(
        _AGENTS.c.host == bindparam("host"), HEARTBEATS.c.at >= Now() - bindparam("milliseconds")
    )
    .with_for_update(read=True)
)
"""As committed last: a snapshot may be older than the lock on the address."""


class TunnelAddresses:
    """The tunnel addresses of hosts, in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def host_of(self, address: IpAddress) -> str | None:
        """Return the host that has *address*, and lock the row."""
        rows = select(TUNNEL_ADDRESSES.c.host).where(TUNNEL_ADDRESSES.c.address == str(address))
        found: str | None = self._connection.execute(rows.with_for_update()).scalar()
        return found

    def is_in_use(self, address: IpAddress, host: str, within: float) -> bool:
        """Return whether an agent of *host* with *address* sent a heartbeat within so many
        seconds."""
        values = {"host": host, "milliseconds": int(within * 1000)}
        bodies = self._connection.execute(SELECT_LIVE_AGENTS_FOR_SHARE, values).scalars()
        agents = (cast(Agent, value(Kind.AGENT, body)) for body in bodies)
        return any(agent.tunnel_address == address for agent in agents)

    def of(self, host: str) -> frozenset[str]:
        """Return the addresses of *host*."""
        rows = select(TUNNEL_ADDRESSES.c.address).where(TUNNEL_ADDRESSES.c.host == host)
        return frozenset(self._connection.execute(rows).scalars())

    def assign(self, address: IpAddress, host: str, former: str | None) -> None:
        """Assign *address*, which *former* has, to *host*.

        The transaction is retried if another was the first to assign it.
        """
        if former is not None:
            same = TUNNEL_ADDRESSES.c.address == str(address)
            self._connection.execute(update(TUNNEL_ADDRESSES).where(same).values(host=host))
            return
        row = {"address": str(address), "host": host}
        try:
            self._connection.execute(insert(TUNNEL_ADDRESSES).values(row))
        except IntegrityError as exc:
            raise RetryTransaction(f"another transaction assigned {address} first") from exc

    def release(self, host: str, addresses: Collection[str]) -> None:
        """Release those of *addresses* that *host* has."""
        if addresses:
            named = TUNNEL_ADDRESSES.c.address.in_(sorted(addresses))
            own = TUNNEL_ADDRESSES.c.host == host
            self._connection.execute(delete(TUNNEL_ADDRESSES).where(named, own))
