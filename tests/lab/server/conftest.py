"""Databases for the tests of handlers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netfw.server.db import Database
from tests.lab.databases import Places


@pytest.fixture
def file_database(places: Places) -> Iterator[Database]:
    """An SQLite file with empty tables."""
    database = Database(places.filled("sqlite"))
    yield database
    database.close()
