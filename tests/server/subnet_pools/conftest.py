"""The API with subnet pools, routers, auto-allocated topologies and RBAC, on SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.l3.routers import RouterPlugin
from netfw.server.rbac.policies import RbacPlugin
from netfw.server.subnet_pools.auto_topology import AutoAllocatePlugin
from netfw.server.subnet_pools.pools import SubnetPoolsPlugin
from tests.server.api.environment import Client, api
from tests.server.api.plugins import kept


@pytest.fixture
def plugins(empty_tables: Path, tmp_path: Path) -> Iterator[list[HandlerPlugin]]:
    """Yield the plugins of one test."""
    with kept(empty_tables, tmp_path) as plugins:
        context = plugins[0].context
        context.quotas["subnetpool"] = -1
        more = (RouterPlugin, SubnetPoolsPlugin, AutoAllocatePlugin, RbacPlugin)
        yield [*plugins, *(plugin(context) for plugin in more)]


@pytest.fixture
def alice(plugins: list[HandlerPlugin]) -> Client:
    """Return the client of Alice, a member of a project."""
    return api(plugins)


@pytest.fixture
def admin(alice: Client) -> Client:
    return alice.as_("root/admin")
