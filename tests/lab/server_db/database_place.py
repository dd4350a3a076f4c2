"""Where the databases of tests are."""

from __future__ import annotations

import shutil
from pathlib import Path

from attrs import frozen

from netfw.server.db import Database, migration
from netfw.testing.lab.databases import PrivateMariadb, PrivatePostgres

BACKENDS = ("sqlite", "postgresql", "mariadb")


@frozen
class Place:
    """A database that is empty."""

    backend: str
    name: str
    url: str
    places: Places

    def with_tables(self) -> str:
        """Make the tables, or copy them from a database that has them, and return the URL."""
        return self.places.fill(self)


class Places:
    """One server of each backend, started when it is first needed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._postgres: PrivatePostgres | None = None
        self._mariadb: PrivateMariadb | None = None
        self._template = directory / "template.db"

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

    def place(self, backend: str, name: str) -> Place:
        if backend == "postgresql":
            return Place(backend, name, self.postgres.create(name), self)
        if backend == "mariadb":
            return Place(backend, name, self.mariadb.create(name), self)
        return Place(backend, name, f"sqlite:///{self.directory}/{name}.db", self)

    def fill(self, place: Place) -> str:
        if place.backend == "sqlite":
            if not self._template.exists():
                _upgrade(f"sqlite:///{self._template}")
            shutil.copy(self._template, self.directory / f"{place.name}.db")
        elif place.backend == "postgresql":
            self.postgres.drop(place.name)
            if not getattr(self, "_filled", False):
                _upgrade(self.postgres.create("filled"))
                self._filled = True
            self.postgres.create(place.name, "filled")
        else:
            _upgrade(place.url)
        return place.url

    def drop(self, place: Place) -> None:
        if place.backend == "postgresql":
            self.postgres.drop(place.name)
        elif place.backend == "mariadb":
            self.mariadb.drop(place.name)
        else:
            for file in self.directory.glob(f"{place.name}.db*"):
                file.unlink()

    def stop(self) -> None:
        for server in (self._postgres, self._mariadb):
            if server is not None:
                server.stop()

    def _folder(self, name: str) -> Path:
        path = self.directory / name
        path.mkdir()
        return path


def _upgrade(url: str) -> None:
    database = Database(url)
    try:
        migration.upgrade(database)
    finally:
        database.close()
