"""Databases of each kind, for every test of the server that asks for one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.server.db import Database
from tests.lab.databases import BACKEND_PARAMETERS, DatabaseServers


@pytest.fixture(scope="session")
def database_servers() -> Iterator[DatabaseServers]:
    """Yield database servers that start with the first test that needs one and stop at the end."""
    quick = "/dev/shm" if Path("/dev/shm").is_dir() else None
    made = DatabaseServers(Path(tempfile.mkdtemp(prefix="db-", dir=quick)))
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(made.directory, ignore_errors=True)


@pytest.fixture(params=BACKEND_PARAMETERS)
def url(request: pytest.FixtureRequest, database_servers: DatabaseServers) -> str:
    """Return the URL of a database with empty tables, of each backend."""
    return database_servers.filled(request.param)


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """Yield a database with empty tables, of each backend."""
    made = Database(url)
    yield made
    made.close()
