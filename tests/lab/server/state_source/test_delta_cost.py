"""A delta reads the rows of the change, however many topics its reader follows."""

from __future__ import annotations

from ipaddress import IPv4Address
from uuid import UUID

import pytest
from sqlalchemy import event

from netfw.drivers.values.subscription import Service
from netfw.model import FloatingIp, FloatingIpId, Router, RouterId
from netfw.model.resource import ref
from netfw.server.db import Database
from netfw.server.db.journal.topics import readers
from netfw.server.state_source import deltas
from netfw.state.dependencies import Assignment
from netfw.testing.conformance.state_source import samples
from tests.lab.server.state_source.environment import DatabaseBackend

ROUTERS = 60
READERS = sorted(readers(samples.L3_HERE))


class CountedRows:
    """Counts the rows that SQLite returns to readers."""

    def __init__(self, database: Database) -> None:
        self.count = 0
        event.listen(database.reading, "connect", self._connected)

    def _connected(self, connection: object, _: object) -> None:
        connection.row_factory = self._row  # type: ignore[attr-defined]

    def _row(self, _: object, row: tuple[object, ...]) -> tuple[object, ...]:
        self.count += 1
        return row


def router(number: int) -> Router:
    return Router(id=RouterId(UUID(int=1000 + number)))


def floating_ip(number: int) -> FloatingIp:
    return FloatingIp(
        id=FloatingIpId(UUID(int=5000 + number)),
        network_id=samples.NET.id,
        address=IPv4Address("192.0.2.0") + number,
        router_id=router(0).id,
    )


def assign(backend: DatabaseBackend, number: int) -> None:
    backend.commit([router(number), Assignment(Service.L3, samples.HERE, ref(router(number)))])


@pytest.mark.spec("RPC-02")
def test_a_delta_reads_as_many_rows_with_one_router_as_with_many(file_database: Database) -> None:
    database = file_database
    backend, rows = DatabaseBackend(database), CountedRows(database)
    assign(backend, 0)

    def cost(number: int) -> int:
        since = database.read(lambda view: view.journal.cursor())
        backend.commit([floating_ip(number)])
        before = rows.count
        delta = database.read(
            lambda view: deltas.changes(view, READERS, since, 500, database.traces)
        )
        assert delta.put.keys() == {ref(floating_ip(number))}
        return rows.count - before

    alone = cost(1)
    for number in range(1, ROUTERS):
        assign(backend, number)
    assert cost(2) == alone
