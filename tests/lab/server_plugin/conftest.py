"""Databases for the tests of keepers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from database_place import Places

from netfw.server.db import Database

sys.path.insert(0, str(Path(__file__).parents[2] / "server" / "plugin"))


@pytest.fixture
def file_database(places: Places) -> Iterator[Database]:
    """An SQLite file with empty tables."""
    database = Database(places.filled("sqlite"))
    yield database
    database.close()
