"""Tables come and go by migrations, and are those that the code works with."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from netfw.drivers.query import Query
from netfw.errors import BackendBroken, InvalidInput
from netfw.model.network import Network
from netfw.model.resource import Kind
from netfw.server.db import Database, migration
from tests.lab.databases import Place


@pytest.mark.spec("ML2-11")
def test_tables_come_with_an_upgrade_are_as_declared_and_go_with_a_downgrade(
    place: Place, open_database: Callable[..., Database]
) -> None:
    database = open_database(place.url)
    assert migration.current(database) is None
    for _ in range(2):
        migration.upgrade(database)
        assert migration.current(database) == migration.newest()
        assert migration.differences(database) == ()
        migration.upgrade(database)
        migration.downgrade(database, "base")
        assert migration.current(database) is None


def test_several_who_begin_at_once_wait_for_the_first(
    place: Place, open_database: Callable[..., Database]
) -> None:
    databases = [open_database(place.url) for _ in range(4)]
    with ThreadPoolExecutor(len(databases)) as pool:
        assert list(pool.map(migration.upgrade, databases)) == [None] * len(databases)
    assert migration.differences(databases[0]) == ()


def test_what_works_on_other_tables_is_refused_with_what_to_do(
    place: Place, open_database: Callable[..., Database]
) -> None:
    database = open_database(place.url)
    with pytest.raises(BackendBroken, match="netfw-db upgrade"):
        migration.require_newest(database)
    with pytest.raises(BackendBroken, match="netfw-db upgrade"):
        database.read(lambda view: view.journal.cursor())
    with pytest.raises(InvalidInput, match="7777"):
        migration.upgrade(database, "7777")


def test_a_column_that_somebody_took_away_is_found(
    place: Place, open_database: Callable[..., Database]
) -> None:
    database = open_database(place.url)
    migration.upgrade(database)
    with database.writing.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE routers DROP COLUMN ha")
    assert migration.differences(database) == ("add column: routers ha",)


def test_what_becomes_a_column_is_taken_from_what_is_stored(
    place: Place, open_database: Callable[..., Database]
) -> None:
    database = open_database(place.url)
    migration.upgrade(database)
    networks = [
        Network(id=UUID(int=number), project_id="p", port_security=number != 2)
        for number in (1, 2, 3)
    ]
    database.transaction(lambda tx: tx.resources.insert(*networks))
    migration.downgrade(database, "0005")
    migration.upgrade(database)

    def found(value: bool) -> list[int]:
        query = Query(filters={"port_security_enabled": (value,)})
        rows = database.read(lambda view: view.resources.find(Kind.NETWORK, query))
        return [row.ref.id.int for row in rows]

    assert (found(True), found(False)) == ([1, 3], [2])
