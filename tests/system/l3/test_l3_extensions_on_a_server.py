"""From conntrack helpers of the API to packets through a router on another host."""

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
