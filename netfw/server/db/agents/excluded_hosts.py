"""Hosts that administrators removed networks and routers from: schedulers assign them elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.exc import IntegrityError

from netfw.drivers.values.subscription import Service
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.resources.rows import AT_ONCE
from netfw.server.db.schema.tables import EXCLUDED_HOSTS


class ExcludedHosts:
    """The hosts on which a service is not to have a resource, in one transaction or snapshot.

    They are deleted with the resource.
    """

    def __init__(self, connection: Connection, service: Service) -> None:
        self._connection, self._table = connection, EXCLUDED_HOSTS[service]

    def of(self, resource: UUID) -> frozenset[str]:
        """Return the hosts that are not to have *resource*."""
        table = self._table
        rows = select(table.c.host).where(table.c.resource_id == str(resource))
        return frozenset(self._connection.execute(rows).scalars())

    def of_each(self, resources: Iterable[UUID]) -> dict[UUID, frozenset[str]]:
        """Return the hosts of those of *resources* that have any."""
        ids, hosts = sorted(map(str, resources)), dict[UUID, frozenset[str]]()
        for at in range(0, len(ids), AT_ONCE):
            rows = select(self._table).where(self._table.c.resource_id.in_(ids[at : at + AT_ONCE]))
            for id, host in self._connection.execute(rows):
                hosts[UUID(id)] = hosts.get(UUID(id), frozenset()) | {host}
        return hosts

    def add(self, resource: UUID, host: str) -> None:
        """Exclude *host*, which has *resource*."""
        row = {"resource_id": str(resource), "host": host}
        try:
            self._connection.execute(insert(self._table).values(row))
        except IntegrityError as exc:
            raise RetryTransaction(f"another transaction excluded {host}") from exc

    def remove(self, resource: UUID, host: str) -> None:
        """Let *host* have *resource* again.  Idempotent."""
        table = self._table
        same = (table.c.resource_id == str(resource), table.c.host == host)
        self._connection.execute(delete(table).where(*same))

    def remove_host(self, host: str) -> None:
        """Let *host*, whose agent is deleted, have everything again."""
        self._connection.execute(delete(self._table).where(self._table.c.host == host))
