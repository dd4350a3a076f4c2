"""A database of each kind, empty but for its tables, for every test that asks for one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from database_place import BACKENDS, Place, Places

from netfw.server.db import Database, Limits


@pytest.fixture(scope="session")
def places() -> Iterator[Places]:
    """Servers, started when the first test asks for one, and gone with the last."""
    made = Places(Path(tempfile.mkdtemp(prefix="db-", dir="/run" if _writable() else None)))
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(made.directory, ignore_errors=True)


_numbers = count(1)


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest, places: Places) -> Iterator[Place]:
    """A database of one backend, without tables."""
    made = places.place(request.param, f"test{next(_numbers)}")
    try:
        yield made
    finally:
        places.drop(made)


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest, places: Places) -> str:
    """The URL of a database with empty tables."""
    return places.filled(request.param)


@pytest.fixture
def open_database() -> Iterator[Callable[..., Database]]:
    """Open databases by their URLs; all are closed at the end."""
    opened: list[Database] = []

    def open(url: str, limits: Limits | None = None, **options: int) -> Database:
        opened.append(Database(url, limits, **options))
        return opened[-1]

    yield open
    for each in opened:
        each.close()


@pytest.fixture
def database(url: str, open_database: Callable[..., Database]) -> Database:
    """A database with empty tables."""
    return open_database(url)


def _writable() -> bool:
    from netfw.testing.lab import sandbox

    return sandbox.inside()
