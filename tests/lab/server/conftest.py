"""Databases for the tests of handlers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netfw.server.db import Database
from tests.lab.databases import DatabaseServers


@pytest.fixture
def file_database(database_servers: DatabaseServers) -> Iterator[Database]:
    """Yield an SQLite file with empty tables."""
    database = Database(database_servers.filled("sqlite"))
    yield database
    database.close()
