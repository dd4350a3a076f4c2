"""Migrations that end between two steps."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from netfw.errors import BackendBroken
from netfw.server.db import Database, migration
from tests.lab.databases import EmptyDatabase
from tests.lab.server.db.samples import network, store


class Interrupted(Exception):
    """The command ends here."""


def interrupt_at(version: str) -> Callable[[str], None]:
    def on_step(reached: str) -> None:
        if reached == version:
            raise Interrupted

    return on_step


@pytest.mark.spec("ML2-11")
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
