"""netfw-l3-agent with the kernel's routers, on one host."""

import pytest

from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.wait import wait_until
from netfw_drivers.ovs.common.local_vlans import DEAD_VLAN
from tests.lab.agents.l3.environment import (
    FLOATING_ADDRESS,
    FLOATING_IP,
    NAMESPACE,
    OTHER_VM,
    ROUTER,
)


def is_reached(instance, address):
    return instance.ping(address, count=1, timeout=1).lost == 0


@pytest.mark.spec("L3-10", "L3-12")
def test_router_runs_from_a_file_and_its_statuses_are_reported(site):
    site.start()
    vm, world = site.vm(), site.world()
    wait_until(lambda: is_reached(vm, "203.0.113.1"))
    wait_until(lambda: is_reached(world, FLOATING_ADDRESS))
    wait_until(lambda: site.reported() == {ROUTER: "ACTIVE", FLOATING_IP: "ACTIVE"}, site.reported)
    mark = site.host.run(["ovs-vsctl", "get", "Bridge", "br-int", "external_ids:l3-initialized"])
    assert mark.strip().strip('"') == "true"
    plan = site.plan()
    assert plan.status == 0, plan.output


@pytest.mark.spec("L3-10")
def test_statuses_follow_the_wiring_of_the_gateway(site):
    site.start()
    active = {ROUTER: "ACTIVE", FLOATING_IP: "ACTIVE"}
    wait_until(lambda: site.reported() == active, site.reported)
    site.wiring.kill()  # it would wire the port again
    (gateway,) = (name for name in site.router_devices() if name.startswith("qg-"))
    tag = site.host.run(["ovs-vsctl", "get", "Port", gateway, "tag"]).strip()
    site.host.run(["ovs-vsctl", "set", "Port", gateway, f"tag={DEAD_VLAN}"])
    down = {ROUTER: "DEGRADED", FLOATING_IP: "DOWN"}
    wait_until(lambda: site.reported() == down, site.reported)
    why = "has not admitted port"
    site.l3.wait_for(lambda status: why in status["waiting"].get(f"router {ROUTER}", ""))
    site.host.run(["ovs-vsctl", "set", "Port", gateway, f"tag={tag}"])
    wait_until(lambda: site.reported() == active, site.reported)


@pytest.mark.spec("L3-11")
def test_killed_agent_loses_no_packet_and_its_successor_changes_nothing(site):
    site.start()
    vm, world = site.vm(), site.world()
    wait_until(lambda: is_reached(vm, "203.0.113.1") and is_reached(world, FLOATING_ADDRESS))
    with vm.pinging("203.0.113.1", 0.01) as out, world.pinging(FLOATING_ADDRESS, 0.01) as inside:
        site.l3.kill()
        site.l3.start()
        site.l3.stop()
        site.l3.start()
        pings = out.stop(), inside.stop()
    for ping in pings:
        assert ping.sent > 50
        assert ping.lost == 0
    assert site.plan().status == 0


@pytest.mark.spec("L3-02")
def test_floating_ip_moves_and_the_router_goes_without_a_trace(site):
    site.start()
    vm, other, world = site.vm(), site.vm(OTHER_VM), site.world()
    wait_until(lambda: is_reached(world, FLOATING_ADDRESS))
    vm.run(["ip", "link", "set", "eth0", "down"])
    assert not is_reached(world, FLOATING_ADDRESS)
    site.content["floatingips"] = [site.floating_ip(OTHER_VM)]
    site.write()
    wait_until(lambda: is_reached(world, FLOATING_ADDRESS))
    wait_until(lambda: is_reached(other, "203.0.113.1"))
    site.content |= {"floatingips": [], "assignments": []}
    site.write()
    wait_until(lambda: NAMESPACE not in site.namespaces())
    wait_until(lambda: not site.router_devices())
    site.l3.wait_for(lambda status: status["ready"] and not status["counts"]["routers"])


@pytest.mark.nightly
@pytest.mark.spec("L3-10")
def test_router_that_is_assigned_again_is_reported_again(site):
    site.start()
    active = {ROUTER: "ACTIVE", FLOATING_IP: "ACTIVE"}
    wait_until(lambda: site.reported() == active, site.reported)
    assignments, site.content["assignments"] = site.content["assignments"], []
    site.write()
    wait_until(lambda: NAMESPACE not in site.namespaces())
    wait_until(lambda: site.reported() == {}, site.reported)
    site.content["assignments"] = assignments
    site.write()
    wait_until(lambda: site.reported() == active, site.reported)


@pytest.mark.spec("L3-05")
def test_router_of_a_former_agent_is_removed_when_it_is_no_longer_desired(site):
    site.start()
    assert NAMESPACE in site.namespaces()
    site.l3.kill()
    site.content |= {"floatingips": [], "assignments": []}
    site.write()
    site.l3.start()
    assert NAMESPACE not in site.namespaces()
    assert not site.router_devices()
    assert not list(site.l3.directory.glob("ns-metadata-proxy-l3/router/*.conf"))


@pytest.mark.nightly
@pytest.mark.spec("L3-28", "MD-03")
def test_instances_reach_the_metadata_proxy_of_their_router(site):
    site.start()
    vm = site.vm()
    words = ["curl", "-s", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}"]

    def answer():
        return vm.attempt([*words, "http://169.254.169.254/latest"]).output

    wait_until(lambda: answer() == "503", answer)  # no metadata agent runs here
    assert vm.attempt([*words, "http://10.0.1.1:9697/"]).status != 0, "only by the redirect"


@pytest.mark.nightly
def test_second_agent_with_the_same_directory_waits_for_the_first(site):
    site.start()
    active = {ROUTER: "ACTIVE", FLOATING_IP: "ACTIVE"}
    wait_until(lambda: site.reported() == active, site.reported)
    options = {
        **site.l3.options,
        "DEFAULT": {"log_level": "debug"},
        "agent": {"retry_interval": 0.1},
    }
    options["linux"] = {"router_confs": site.l3.directory / "routers"}
    options["haproxy"] = {"metadata_proxy_confs": site.l3.directory / "ns-metadata-proxy-l3"}
    second = PrivateAgent(site.host, site.directory / "second", "netfw.cli.agents.l3", options)
    second.spawn()
    try:
        status = second.wait_for(lambda status: bool(status.get("errors")))
        (error,) = status["errors"].values()
        assert f"process {site.l3.pid} works in {site.l3.directory / 'routers'}" in error
        assert (status["ready"], status["degraded"], status["waiting"]) == (False, {}, {})
        assert site.reported() == active, "the status file is the first one's"
        site.l3.stop()
        second.wait_for(lambda status: bool(status.get("ready")))
        wait_until(lambda: site.reported().get(ROUTER) == "ACTIVE", site.reported)
        assert site.host.attempt(["ip", "netns", "exec", NAMESPACE, "true"]).status == 0
    finally:
        second.stop()
