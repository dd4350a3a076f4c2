"""Two hosts with all agents, on one server, that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from dhcp_cloud import DhcpNet, await_that

from netfw.cli.demo.server_chapter import Cloud, a_cloud
from netfw.testing.lab import sandbox

SOON = {"agent_down_time": 3, "reschedule_interval": 1, "failover_grace": 0}
"""Seconds after which the networks of a silent agent are given to another."""


@pytest.fixture(scope="module")
def cloud(request: pytest.FixtureRequest) -> Iterator[Cloud]:
    """A server, and two hosts that are ready."""
    sandbox.require()
    more = getattr(request.module, "SCHEDULING", {})
    with a_cloud({"scheduling": {**SOON, **more}}) as made:
        made.server.start()
        for host in made.hosts:
            host.service.start()
            for agent in (host.agent, host.dhcp, host.metadata):
                agent.options["agent"]["report_interval"] = 1
                agent.begin()
        for host in made.hosts:
            for agent in (host.agent, host.dhcp, host.metadata):
                agent.wait_for(lambda status: bool(status.get("ready")))
        await_that(lambda: sum(each.is_alive for each in made.network.agents()) == 6)
        yield made
        for host in made.hosts:
            for agent in (host.agent, host.dhcp, host.metadata):
                assert "Traceback" not in agent.log.read_text(), agent.log.read_text()
        assert "Traceback" not in made.server.log.read_text()


@pytest.fixture
def net(cloud: Cloud, request: pytest.FixtureRequest) -> Iterator[DhcpNet]:
    """A network with an IPv4 subnet, which goes with the test, and leaves nothing."""
    made = DhcpNet(cloud, request.node.name[:40])
    made.subnet(4)
    yield made
    made.remove()
    await_that(lambda: not made.places(), "its namespaces are gone")
