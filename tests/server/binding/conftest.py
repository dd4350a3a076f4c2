"""Ports and a network, for each test."""

from __future__ import annotations

import pytest

from netfw.model.values.ids import NetworkId
from netfw.server.core.server_context import ServerContext
from tests.server.l2.environment import PortsEnvironment


@pytest.fixture
def env(context: ServerContext) -> PortsEnvironment:
    return PortsEnvironment(context)


@pytest.fixture
def network(env: PortsEnvironment) -> NetworkId:
    return env.network()
