"""Migrations that end between two steps, lose their connection, or wait for others in vain."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from netfw.errors import BackendBroken, BackendUnavailable
from netfw.server.db import Database, migration
from tests.lab.databases import BACKENDS, SERVER_PARAMETERS, EmptyDatabase
from tests.lab.server.db.samples import network, store


class Interrupted(Exception):
    """The command ends here."""


def interrupt_at(version: str) -> Callable[[str], None]:
    def on_step(reached: str) -> None:
        if reached == version:
            raise Interrupted

    return on_step


@pytest.mark.spec("ML2-11")
@pytest.mark.parametrize("empty_database", BACKENDS, indirect=True)
def test_an_upgrade_that_ends_between_two_steps_is_repeated(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    database = open_database(empty_database.url)
    for version in ("0001", "0012", "0020", "0027"):
        with pytest.raises(Interrupted):
            migration.upgrade(database, on_step=interrupt_at(version))
    migration.upgrade(database)
    assert migration.current(database) == migration.newest()
    assert migration.differences(database) == ()


@pytest.mark.spec("ML2-11")
@pytest.mark.parametrize("empty_database", BACKENDS, indirect=True)
def test_a_server_stores_nothing_after_a_part_of_a_migration(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    running, other = (open_database(empty_database.url) for _ in range(2))
    migration.upgrade(other)
    migration.require_newest(running)
    with pytest.raises(Interrupted):
        migration.downgrade(other, "0021", on_step=interrupt_at("0024"))
    if empty_database.backend == "mariadb":
        assert migration.current(other) == "0023"
        with pytest.raises(BackendBroken, match=r"version 0023 .*netfw-db upgrade"):
            store(running, network())
    else:
        assert migration.current(other) == migration.newest()
        store(running, network())


@pytest.mark.spec("ML2-11")
def test_a_migration_that_waits_for_another_in_vain_changes_nothing(
    empty_database: EmptyDatabase,
    open_database: Callable[..., Database],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(migration, "LOCK_TIMEOUT", 1)
    one, other = (open_database(empty_database.url) for _ in range(2))

    def wait_in_vain(version: str) -> None:
        if version == "0002":
            with pytest.raises(BackendUnavailable):
                migration.upgrade(other)
            raise Interrupted

    with pytest.raises(Interrupted):
        migration.upgrade(one, on_step=wait_in_vain)
    migration.upgrade(other)
    assert migration.differences(other) == ()


@pytest.mark.spec("ML2-11")
@pytest.mark.parametrize("empty_database", SERVER_PARAMETERS, indirect=True)
def test_a_migration_that_loses_its_connection_says_so_and_is_repeated(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    database, other = (open_database(empty_database.url) for _ in range(2))
    with pytest.raises(BackendUnavailable, match="the database does not answer"):
        migration.upgrade(database, on_step=lambda version: end_connections(other))
    migration.upgrade(other)
    assert migration.differences(other) == ()


def end_connections(database: Database) -> None:
    """End the other connections to the database, as a server that restarts does."""
    with database.writing.connect() as connection:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            return
        others = (
            "SELECT id FROM information_schema.processlist "
            "WHERE db = DATABASE() AND id <> CONNECTION_ID()"
        )
        for id in connection.exec_driver_sql(others).scalars().all():
            connection.exec_driver_sql(f"KILL {id}")
