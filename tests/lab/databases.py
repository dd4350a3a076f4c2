"""Databases of tests on servers of each backend."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from attrs import frozen
from sqlalchemy import insert, select

from netfw.model.resource import Kind
from netfw.server.db import Database, migration
from netfw.server.db.schema.resource_tables import STORED
from netfw.server.db.schema.tables import JOURNAL_HEAD
from netfw.testing.lab.services.databases import PrivateMariadb, PrivatePostgres

T = TypeVar("T")

DEFAULT_RULES = STORED[Kind.DEFAULT_SECURITY_GROUP_RULE].table
BACKENDS = ("sqlite", "postgresql", "mariadb")


@frozen
class EmptyDatabase:
    """An empty database, without any table."""

    backend: str
    name: str
    url: str


class DatabaseServers:
    """One server of each backend, started when it is first needed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._postgres: PrivatePostgres | None = None
        self._mariadb: PrivateMariadb | None = None
        self._filled: dict[str, str] = {}
        self._first_rows: dict[str, list[dict[str, Any]]] = {}

    @property
    def postgres(self) -> PrivatePostgres:
        if self._postgres is None:
            self._postgres = PrivatePostgres(self._folder("p")).start()
        return self._postgres

    @property
    def mariadb(self) -> PrivateMariadb:
        if self._mariadb is None:
            self._mariadb = PrivateMariadb(self._folder("m")).start()
        return self._mariadb

    def create(self, backend: str, name: str) -> EmptyDatabase:
        """A database without tables."""
        if backend == "postgresql":
            return EmptyDatabase(backend, name, self.postgres.create(name))
        if backend == "mariadb":
            return EmptyDatabase(backend, name, self.mariadb.create(name))
        return EmptyDatabase(backend, name, f"sqlite:///{self.directory}/{name}.db")

    def drop(self, database: EmptyDatabase) -> None:
        if database.backend == "postgresql":
            self.postgres.drop(database.name)
        elif database.backend == "mariadb":
            self.mariadb.drop(database.name)
        else:
            for file in self.directory.glob(f"{database.name}.db*"):
                file.unlink()

    def filled(self, backend: str) -> str:
        """The URL of a database with empty tables: always the same one, as making them is slow."""
        if backend not in self._filled:
            self._filled[backend] = self.create(backend, "filled").url
            _with(self._filled[backend], migration.upgrade)
            self._first_rows[backend] = _with(self._filled[backend], _read_first_rows)
        elif backend != "sqlite":
            rows = self._first_rows[backend]
            _with(self._filled[backend], lambda database: _empty(database, rows))
        if backend != "sqlite":
            return self._filled[backend]
        copy = self.directory / f"{uuid4().hex}.db"
        shutil.copy(self.directory / "filled.db", copy)
        return f"sqlite:///{copy}"

    def stop(self) -> None:
        for server in (self._postgres, self._mariadb):
            if server is not None:
                server.stop()

    def _folder(self, name: str) -> Path:
        path = self.directory / name
        path.mkdir()
        return path


def _with(url: str, work: Callable[[Database], T]) -> T:
    database = Database(url)
    try:
        return work(database)
    finally:
        database.close()


def _read_first_rows(database: Database) -> list[dict[str, Any]]:
    """The rows that the migrations make: those of default rules."""
    with database.reading.connect() as connection:
        return [dict(row) for row in connection.execute(select(DEFAULT_RULES)).mappings()]


def _empty(database: Database, first_rows: list[dict[str, Any]]) -> None:
    names = [
        table.name for table in JOURNAL_HEAD.metadata.sorted_tables if table is not JOURNAL_HEAD
    ]
    with database.writing.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"TRUNCATE {', '.join(names)}")
        else:
            for name in reversed(names):
                connection.exec_driver_sql(f"DELETE FROM {name}")
        connection.exec_driver_sql(
            f"UPDATE journal_head SET seq = 0, oldest = 0, epoch = '{uuid4().hex}'"
        )
        connection.execute(insert(DEFAULT_RULES), first_rows)
