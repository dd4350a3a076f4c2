"""From conntrack helpers and NDP proxies of the API to packets through a router on another host."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.l3_extensions.dialogues import TFTP_PORT, transfer_starts
from tests.system.l3.environment import RoutedCloud, is_reached, routed_cloud

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@pytest.fixture
def routed() -> Iterator[RoutedCloud]:
    sandbox.require()
    with routed_cloud() as made:
        yield made


@pytest.mark.spec("L3-80")
def test_conntrack_helpers_of_the_api_work_and_go(routed: RoutedCloud) -> None:
    network = routed.network
    blue, blue_subnet = routed.make_network("blue", "10.0.1.0/24")
    outside, _ = routed.make_network("outside", "203.0.113.0/24", is_router_external=True)
    router = network.create_router(name="edge", external_gateway_info={"network_id": outside.id})
    network.add_interface_to_router(router, subnet=blue_subnet.id)
    _, vm = routed.boot("vm", blue, "10.0.1.11", device_id="vm-1", device_owner="compute:nova")
    _, world = routed.boot("world", outside, "203.0.113.200")
    vm.configure(["10.0.1.11/24"], ["10.0.1.1"])
    wait_until(lambda: is_reached(vm, "203.0.113.200"))
    inside, to = ip_address("10.0.1.11"), ip_address("203.0.113.200")
    assert not transfer_starts(vm, inside, world, to)
    helper = network.create_conntrack_helper(router, protocol="udp", port=TFTP_PORT, helper="tftp")
    wait_until(lambda: transfer_starts(vm, inside, world, to))
    assert network.get_router(router.id).status == "ACTIVE"
    network.delete_conntrack_helper(helper, router)
    wait_until(lambda: not transfer_starts(vm, inside, world, to))


@pytest.mark.spec("API-07")
def test_ndp_proxies_of_the_api_work_and_go(routed: RoutedCloud) -> None:
    network = routed.network
    scope = network.create_address_scope(name="one", ip_version=6)
    pool = network.create_subnet_pool(
        name="one", address_scope_id=scope.id, prefixes=["fd00::/16"], default_prefix_length=64
    )
    inside = network.create_network(name="blue")
    outside = network.create_network(name="outside", is_router_external=True)
    subnets = [
        network.create_subnet(
            network_id=each.id,
            ip_version=6,
            subnet_pool_id=pool.id,
            cidr=cidr,
            is_dhcp_enabled=False,
        )
        for each, cidr in ((inside, "fd00:1::/64"), (outside, "fd00:ff00::/64"))
    ]
    router = network.create_router(
        name="edge", external_gateway_info={"network_id": outside.id}, enable_ndp_proxy=True
    )
    network.add_interface_to_router(router, subnet=subnets[0].id)
    port, vm = routed.boot(
        "vm", inside, "fd00:1::11", device_id="vm-1", device_owner="compute:nova"
    )
    _, world = routed.boot("world", outside, "fd00:ff00::200")
    vm.configure([], [subnets[0].gateway_ip])
    world.run(["ip", "-6", "route", "add", "fd00:1::/64", "dev", "eth0"])
    wait_until(lambda: network.get_router(router.id).status == "ACTIVE")
    wait_until(lambda: is_reached(vm, subnets[0].gateway_ip))
    assert not is_reached(world, "fd00:1::11")
    proxy = network.create_ndp_proxy(router_id=router.id, port_id=port.id)
    assert proxy.ip_address == "fd00:1::11"
    wait_until(lambda: is_reached(world, "fd00:1::11"))
    network.delete_ndp_proxy(proxy)
    wait_until(lambda: not is_reached(world, "fd00:1::11"))
