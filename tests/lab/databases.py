"""Databases of tests on servers of each backend."""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import uuid4

from attrs import frozen
from sqlalchemy import Connection, insert, select

from netfw.model.resource import Kind
from netfw.server.db import Database, migration
from netfw.server.db.schema.resource_tables import STORED
from netfw.server.db.schema.tables import JOURNAL_HEAD
from netfw.testing.lab.services.databases import PrivateMariadb, PrivatePostgres
from tests.nightly import nightly

TRUNCATED_AFTER = 20
"""Deletions after which PostgreSQL truncates: deleted rows stay in its files until then."""
DEFAULT_RULES = STORED[Kind.DEFAULT_SECURITY_GROUP_RULE].table
BACKENDS = ("sqlite", "postgresql", "mariadb")
SERVER_PARAMETERS = ["postgresql", nightly("mariadb")]
"""Parameters of a test that tries database servers."""
BACKEND_PARAMETERS = [nightly("sqlite"), *SERVER_PARAMETERS]
"""Parameters of a test that tries each backend; tests/server has most of SQLite."""

_TABLES = [table.name for table in JOURNAL_HEAD.metadata.sorted_tables if table is not JOURNAL_HEAD]


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
        self._filled: dict[str, FilledDatabase] = {}

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
        """Create a database without tables."""
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
        """Return the URL of a database with empty tables; they are made once, as that is slow."""
        if backend not in self._filled:
            self._filled[backend] = FilledDatabase(self.create(backend, "filled").url)
        elif backend != "sqlite":
            self._filled[backend].empty()
        if backend != "sqlite":
            return self._filled[backend].url
        copy = self.directory / f"{uuid4().hex}.db"
        shutil.copy(self.directory / "filled.db", copy)
        return f"sqlite:///{copy}"

    def stop(self) -> None:
        for filled in self._filled.values():
            filled.close()
        for server in (self._postgres, self._mariadb):
            if server is not None:
                server.stop()

    def _folder(self, name: str) -> Path:
        path = self.directory / name
        path.mkdir()
        return path


class FilledDatabase:
    """A database with empty tables, which can be emptied again."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._emptied = 0
        self._database = Database(url)
        migration.upgrade(self._database)
        with self._database.reading.connect() as connection:
            found = connection.execute(select(DEFAULT_RULES)).mappings()
            self._first_rows = [dict(row) for row in found]
        self._database.close()  # a copy of an SQLite file has then all of it

    def empty(self) -> None:
        """Remove all rows but those that the migrations made; the server may have restarted."""
        self._emptied += 1
        self._database.transaction(lambda tx: self._empty(tx.connection))

    def _empty(self, connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"LOCK TABLE {', '.join(_TABLES)}")  # as TRUNCATE does
        if connection.dialect.name == "postgresql" and self._emptied % TRUNCATED_AFTER == 0:
            connection.exec_driver_sql(f"TRUNCATE {', '.join(_TABLES)}")
        else:
            _delete_rows(connection)
        connection.exec_driver_sql(
            f"UPDATE journal_head SET seq = 0, oldest = 0, epoch = '{uuid4().hex}'"
        )
        connection.execute(insert(DEFAULT_RULES), self._first_rows)

    def close(self) -> None:
        self._database.close()


def _delete_rows(connection: Connection) -> None:
    """Delete all rows; most tables have none, and a statement for each takes long."""
    lock = "" if connection.dialect.name == "postgresql" else "LOCK IN SHARE MODE"
    query = " UNION ALL ".join(f"(SELECT '{name}' FROM {name} LIMIT 1 {lock})" for name in _TABLES)
    filled = {name for (name,) in connection.exec_driver_sql(query)}
    for name in reversed(_TABLES):
        if name in filled:
            connection.exec_driver_sql(f"DELETE FROM {name}")
