"""Statuses of routers and floating IPs by the heartbeats of a real agent to a real server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.wait import wait_until
from tests.system.l3.environment import routed_cloud, stays_reached, suspended

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
    pytest.mark.spec("API-18"),
]

QUICK = {"agent_down_time": 5, "failover_grace": 2, "reschedule_interval": 1}


@contextmanager
def killed(agent: PrivateAgent) -> Iterator[None]:
    """Kill *agent*, and start it at the end."""
    agent.kill()
    yield
    agent.start()


@pytest.mark.nightly
def test_statuses_are_down_while_the_host_is_dead() -> None:
    sandbox.require()
    with routed_cloud({"scheduling": QUICK}) as routed:
        network = routed.network
        blue, subnet = routed.make_network("blue", "10.0.1.0/24")
        outside, _ = routed.make_network("outside", "203.0.113.0/24", is_router_external=True)
        gateway = {"network_id": outside.id}
        router = network.create_router(name="edge", external_gateway_info=gateway)
        network.add_interface_to_router(router, subnet=subnet.id)
        port, vm = routed.boot("vm", blue, "10.0.1.11")
        _, world = routed.boot("world", outside, "203.0.113.200")
        vm.configure(["10.0.1.11/24"], ["10.0.1.1"])
        floating = network.create_ip(floating_network_id=outside.id, port_id=port.id)

        def statuses() -> set[str]:
            return {network.get_router(router.id).status, network.get_ip(floating.id).status}

        assert router.status == "BUILD"
        wait_until(lambda: statuses() == {"ACTIVE"}, statuses)
        for dead in (killed, suspended):
            with dead(routed.l3):
                wait_until(lambda: statuses() == {"DOWN"}, statuses)
                assert stays_reached(world, floating.floating_ip_address), "the kernel goes on"
            wait_until(lambda: statuses() == {"ACTIVE"}, statuses)
