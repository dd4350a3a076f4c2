"""Server context over an SQLite file with empty tables, for every test that requests one."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event

from netfw.server.core.server_context import ServerContext
from netfw.server.db import Database, migration
from netfw_drivers.ipam.internal import InternalIpamDriver


@pytest.fixture(scope="session")
def empty_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with all tables, to be copied."""
    path = tmp_path_factory.mktemp("template") / "empty.db"
    database = Database(f"sqlite:///{path}")
    migration.upgrade(database)
    database.close()
    return path


@pytest.fixture
def database(empty_tables: Path, tmp_path: Path) -> Iterator[Database]:
    """Yield a database with empty tables."""
    shutil.copy(empty_tables, tmp_path / "netfw.db")
    database = Database(f"sqlite:///{tmp_path}/netfw.db")
    event.listen(database.writing, "connect", _without_waiting_for_the_disk)
    yield database
    database.close()


def _without_waiting_for_the_disk(connection: sqlite3.Connection, _: object) -> None:
    connection.execute("PRAGMA synchronous = OFF").close()


@pytest.fixture
def context(database: Database) -> ServerContext:
    """Return a server context without handlers."""
    return ServerContext(database=database, ipam=InternalIpamDriver())
