"""The API over real plugins on SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.server.core.handler_plugin import HandlerPlugin
from tests.server.api.environment import Client, api
from tests.server.api.plugins import kept


@pytest.fixture
def plugins(empty_tables: Path, tmp_path: Path) -> Iterator[list[HandlerPlugin]]:
    """Yield the plugins of one test."""
    with kept(empty_tables, tmp_path) as plugins:
        yield plugins


@pytest.fixture
def client(plugins: list[HandlerPlugin]) -> Client:
    """Return the client of Alice, a member of a project of her own."""
    return api(plugins)


@pytest.fixture(scope="module")
def unmoved(empty_tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Yield the client of Alice on an API that tests of a module share, since they only read."""
    with kept(empty_tables, tmp_path_factory.mktemp("unmoved")) as plugins:
        yield api(plugins)
