"""From a call of the API to packets through a router on another host."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.wait import TIMEOUT, wait_until
from tests.system.l3.environment import (
    RoutedCloud,
    fetch,
    is_answered,
    is_reached,
    listening,
    routed_cloud,
    stays_reached,
)

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@pytest.fixture
def routed() -> Iterator[RoutedCloud]:
    sandbox.require()
    with routed_cloud() as made:
        yield made


@pytest.mark.spec("L3-02", "L3-10", "L3-11", "L3-13", "MD-10")
def test_router_and_floating_ip_of_the_api_work_and_go(routed: RoutedCloud) -> None:
    network = routed.network
    blue, blue_subnet = routed.make_network("blue", "10.0.1.0/24")
    outside, _ = routed.make_network("outside", "203.0.113.0/24", is_router_external=True)
    router = network.create_router(name="edge", external_gateway_info={"network_id": outside.id})
    network.add_interface_to_router(router, subnet=blue_subnet.id)
    port, vm = routed.boot("vm", blue, "10.0.1.11", device_id="vm-1", device_owner="compute:nova")
    _, world = routed.boot("world", outside, "203.0.113.200")
    vm.configure(["10.0.1.11/24"], ["10.0.1.1"])
    floating = network.create_ip(floating_network_id=outside.id, port_id=port.id)
    wait_until(lambda: is_reached(vm, "203.0.113.200"))
    wait_until(lambda: network.get_ip(floating.id).status == "ACTIVE")
    wait_until(lambda: is_reached(world, floating.floating_ip_address))
    wait_until(lambda: fetch(vm).startswith("vm-1 10.0.1.11"), lambda: fetch(vm))
    (agent,) = network.agents(agent_type="L3 agent")
    wait_until(lambda: network.get_agent(agent.id).configuration["floating_ips"] == 1)
    with world.pinging(floating.floating_ip_address, timeout=TIMEOUT) as inside:
        routed.l3.kill()
        routed.l3.start()
        assert inside.stop().lost == 0
    network.delete_ip(floating)
    wait_until(lambda: not is_reached(world, floating.floating_ip_address))
    network.remove_interface_from_router(router, subnet=blue_subnet.id)
    network.delete_router(router)
    wait_until(lambda: not routed.has_namespace(router))


@pytest.mark.spec("L3-80")
def test_forwarded_ports_of_the_api_lead_to_an_instance_and_go(routed: RoutedCloud) -> None:
    network = routed.network
    blue, blue_subnet = routed.make_network("blue", "10.0.1.0/24")
    outside, _ = routed.make_network("outside", "203.0.113.0/24", is_router_external=True)
    router = network.create_router(name="edge", external_gateway_info={"network_id": outside.id})
    network.add_interface_to_router(router, subnet=blue_subnet.id)
    port, vm = routed.boot("vm", blue, "10.0.1.11", device_id="vm-1", device_owner="compute:nova")
    _, world = routed.boot("world", outside, "203.0.113.200")
    vm.configure(["10.0.1.11/24"], ["10.0.1.1"])
    floating = network.create_ip(floating_network_id=outside.id)
    inside = {"internal_port_id": port.id, "internal_ip_address": "10.0.1.11", "protocol": "tcp"}
    single = network.create_floating_ip_port_forwarding(
        floating, external_port=2222, internal_port=8080, **inside
    )
    wait_until(lambda: network.get_ip(floating.id).status == "ACTIVE")
    with listening(vm, 8080):
        wait_until(lambda: is_answered(world, floating.floating_ip_address, 2222))
        assert stays_reached(vm, "203.0.113.200")
        network.delete_floating_ip_port_forwarding(floating, single)
        wait_until(lambda: not is_answered(world, floating.floating_ip_address, 2222))
        network.create_floating_ip_port_forwarding(
            floating, external_port_range="5000:5002", internal_port_range="8079:8081", **inside
        )
        wait_until(lambda: is_answered(world, floating.floating_ip_address, 5001))
        wait_until(lambda: network.get_ip(floating.id).status == "ACTIVE")
        assert not is_answered(world, floating.floating_ip_address, 5000)


@pytest.mark.spec("L3-81")
def test_a_firewall_of_the_api_filters_at_the_interface_of_a_router(routed: RoutedCloud) -> None:
    network = routed.network
    blue, blue_subnet = routed.make_network("blue", "10.0.1.0/24")
    outside, _ = routed.make_network("outside", "203.0.113.0/24", is_router_external=True)
    router = network.create_router(name="edge", external_gateway_info={"network_id": outside.id})
    interface = network.add_interface_to_router(router, subnet=blue_subnet.id)["port_id"]
    port, vm = routed.boot("vm", blue, "10.0.1.11", device_id="vm-1", device_owner="compute:nova")
    _, world = routed.boot("world", outside, "203.0.113.200")
    vm.configure(["10.0.1.11/24"], ["10.0.1.1"])
    address = network.create_ip(floating_network_id=outside.id, port_id=port.id).floating_ip_address
    wait_until(lambda: is_reached(world, address))
    web = network.create_firewall_rule(action="allow", protocol="tcp", destination_port="8080")
    policy = network.create_firewall_policy(firewall_rules=[web.id])
    with listening(vm, 8080):
        group = network.create_firewall_group(
            ports=[interface], ingress_firewall_policy_id=policy.id
        )
        wait_until(lambda: not is_reached(world, address))
        wait_until(lambda: is_answered(world, address, 8080))
        assert not is_reached(vm, "203.0.113.200")
        ping = network.create_firewall_rule(action="allow", protocol="icmp")
        network.insert_rule_into_policy(policy.id, firewall_rule_id=ping.id)
        wait_until(lambda: is_reached(world, address))
        with world.pinging(address, timeout=TIMEOUT) as pings:
            network.update_firewall_rule(web, action="deny")
            wait_until(lambda: not is_answered(world, address, 8080))
            routed.l3.kill()
            routed.l3.start()
            assert pings.stop().lost == 0
        assert not is_answered(world, address, 8080)
        network.update_firewall_group(group, ports=[])
        wait_until(lambda: is_answered(world, address, 8080))
        wait_until(lambda: is_reached(vm, "203.0.113.200"))
