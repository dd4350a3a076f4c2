"""Two hosts with all agents, on one server, that tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netfw.cli.demo.server import Cloud
from netfw.testing.lab import sandbox
from tests.system.dhcp.environment import Clouds, DhcpNet


@pytest.fixture(scope="session")
def clouds() -> Iterator[Clouds]:
    """Yield a holder of one cloud at a time; modules that need the same cloud share it."""
    sandbox.require()
    with Clouds() as made:
        yield made


@pytest.fixture
def cloud(clouds: Clouds, request: pytest.FixtureRequest) -> Cloud:
    """Return a server and two ready hosts; the module's ``SCHEDULING`` are the server's options."""
    return clouds.get(getattr(request.module, "SCHEDULING", {}))


@pytest.fixture
def net(cloud: Cloud, request: pytest.FixtureRequest) -> Iterator[DhcpNet]:
    """Yield a network with an IPv4 subnet, which is removed after the test without a trace."""
    with DhcpNet(cloud, request.node.name[:40]) as made:
        made.subnet(4)
        yield made
