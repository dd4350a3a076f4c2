"""Databases that tests open themselves, and databases without tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from netfw.server.db import Database, Limits
from tests.lab.databases import SERVER_PARAMETERS, DatabaseServers, EmptyDatabase

_numbers = count(1)


@pytest.fixture(params=["sqlite", *SERVER_PARAMETERS])
def empty_database(
    request: pytest.FixtureRequest, database_servers: DatabaseServers
) -> Iterator[EmptyDatabase]:
    """Yield a database of each backend, without tables."""
    made = database_servers.create(request.param, f"test{next(_numbers)}")
    try:
        yield made
    finally:
        database_servers.drop(made)


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
    """Return a database with empty tables."""
    return open_database(url)
