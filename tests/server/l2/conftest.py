"""A core plugin of its own database for each test."""

from __future__ import annotations

import pytest

from netfw.server.db import Database
from tests.server.core.core_client import (
    Calls,
    core_plugin,
)


@pytest.fixture
def calls(database: Database) -> Calls:
    return Calls(core_plugin(database))
