"""Servers that run on while another release migrates the tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import insert

from netfw.cli.commands.db import main
from netfw.drivers.server.query import Query
from netfw.errors import BackendBroken, CursorLost
from netfw.model.resource import Kind
from netfw.server.db import Database, migration
from netfw.server.db.schema.tables import HA_NETWORKS, VRIDS
from tests.lab.databases import EmptyDatabase
from tests.lab.server.db.samples import network, store, uid

FORMER = "0025"


def count(database: Database) -> int:
    return database.read(lambda view: view.resources.count(Kind.NETWORK, Query()))


@pytest.fixture
def servers(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> tuple[Database, Database]:
    """Return the database of a running server, and that of the command that migrates."""
    running, other = (open_database(empty_database.url) for _ in range(2))
    migration.upgrade(other)
    migration.require_newest(running)
    return running, other


@pytest.mark.spec("ML2-11", "DRV-48")
def test_a_server_stores_nothing_in_tables_that_another_release_migrated(
    servers: tuple[Database, Database],
) -> None:
    running, other = servers
    store(running, network())
    migration.downgrade(other, FORMER)
    with pytest.raises(BackendBroken, match=f"version {FORMER} .*netfw-db upgrade"):
        store(running, network(2))
    assert count(other) == 1
    migration.upgrade(other)
    store(running, network(2))
    assert count(other) == 2


def test_cursors_of_agents_are_lost_by_a_migration(servers: tuple[Database, Database]) -> None:
    running, other = servers
    store(running, network())
    cursor = running.read(lambda view: view.journal.cursor())
    migration.downgrade(other, FORMER)
    migration.upgrade(other)
    with pytest.raises(CursorLost):
        running.read(lambda view: view.journal.check(cursor))


def test_a_downgrade_that_would_lose_rows_is_refused_by_a_sentence(
    tmp_path: Path, open_database: Callable[..., Database], capsys: pytest.CaptureFixture[str]
) -> None:
    conf = tmp_path / "netfw.conf"
    conf.write_text(f"[database]\nconnection = sqlite:///{tmp_path}/db\n")
    database = open_database(f"sqlite:///{tmp_path}/db")
    migration.upgrade(database)
    store(database, network())
    with database.writing.begin() as connection:
        of_network = {"network_id": str(uid(1))}
        connection.execute(insert(HA_NETWORKS).values(project_id="p", ordinal=0, **of_network))
        connection.execute(insert(VRIDS).values(vrid=1, router_id=str(uid(2)), **of_network))
    assert main(["--config-file", str(conf), "downgrade", "0009"]) == 1
    assert "no downgrade below version 0010" in capsys.readouterr().err
    assert migration.current(database) == migration.newest()
