"""netfw-l3-agent with the parts of a distributed router, on one host."""

from pathlib import Path

import pytest

from netfw.model.values.device_owner import DeviceOwner
from netfw.testing.lab.host import Host
from netfw.testing.lab.wait import wait_until
from tests.lab.agents.l3.environment import (
    FLOATING_ADDRESS,
    FLOATING_IP,
    NAMESPACE,
    OTHER_VM,
    ROUTER,
    RouterSite,
)

CENTRAL_NAMESPACE = f"snat-{ROUTER}"
AGENT_ADDRESS = "203.0.113.90"
ACTIVE = {ROUTER: "ACTIVE", FLOATING_IP: "ACTIVE"}


class DistributedRouterSite(RouterSite):
    """A host that is compute host and network node of a distributed router."""

    def __init__(self, host: Host, directory: Path) -> None:
        super().__init__(host, directory)
        content = self.content
        content["hosts"][host.name] = {"agent_gateways": {"outside": AGENT_ADDRESS}}
        content["routers"][0]["distributed"] = True
        interface = content["ports"][0]
        del interface["host"]
        owner = DeviceOwner.ROUTER_CENTRALIZED_SNAT.value
        content["ports"].append(
            self._port(5, "blue", "10.0.1.5", router="edge", device_owner=owner)
        )
        agent = {"retry_interval": 0.1, "agent_mode": "dvr_snat"}
        self.write()
        self.l3 = self.agent = self._agent("l3", {"agent": agent})
        routing = {"retry_interval": 0.1, "enable_distributed_routing": True}
        self.wiring = self._agent("l2", {"agent": routing})

    def fip_namespaces(self) -> set[str]:
        return {name for name in self.namespaces() if name.startswith("fip-")}


@pytest.fixture
def distributed(make_lab, tmp_path):
    lab = make_lab(hosts=1, bridges=["br-int"])
    (host,) = lab.hosts.values()
    found = DistributedRouterSite(host, tmp_path)
    yield found
    found.close()


def is_reached(instance, address):
    return instance.ping(address, count=1, timeout=1).lost == 0


@pytest.mark.nightly
@pytest.mark.spec("L3-60", "L3-62", "L3-63")
def test_parts_of_a_distributed_router_run_on_one_host(distributed):
    site = distributed
    site.start()
    vm, other, world = site.vm(), site.vm(OTHER_VM), site.world()
    wait_until(lambda: site.reported() == ACTIVE, lambda: (site.reported(), site.l3.status()))
    assert {NAMESPACE, CENTRAL_NAMESPACE} <= site.namespaces()
    assert len(site.fip_namespaces()) == 1
    wait_until(lambda: is_reached(world, FLOATING_ADDRESS))
    wait_until(lambda: is_reached(vm, "203.0.113.1"))
    wait_until(lambda: is_reached(other, "203.0.113.1"))
    plan = site.plan()
    assert plan.status == 0, plan.output


@pytest.mark.spec("L3-69", "L3-66")
def test_agent_gateway_and_parts_go_without_a_trace(distributed):
    site = distributed
    site.start()
    wait_until(lambda: site.reported() == ACTIVE, lambda: (site.reported(), site.l3.status()))
    site.content["floatingips"] = []
    site.write()
    wait_until(lambda: not site.fip_namespaces())
    assert NAMESPACE in site.namespaces()
    site.content["assignments"] = []
    site.content["ports"] = [
        each for each in site.content["ports"] if each["name"] in ("port1", "port99")
    ]
    site.write()
    wait_until(lambda: not {NAMESPACE, CENTRAL_NAMESPACE} & site.namespaces())
    wait_until(lambda: not site.router_devices())
    site.l3.wait_for(lambda status: status["ready"] and not status["counts"]["routers"])


@pytest.mark.spec("L3-11", "L3-62")
def test_killed_agent_loses_no_packet(distributed):
    site = distributed
    site.start()
    vm, world = site.vm(), site.world()
    wait_until(lambda: is_reached(vm, "203.0.113.1") and is_reached(world, FLOATING_ADDRESS))
    with world.pinging(FLOATING_ADDRESS, 0.01) as inside:
        site.l3.kill()
        site.l3.start()
        ping = inside.stop()
    assert ping.sent > 50
    assert ping.lost == 0
    assert site.plan().status == 0
