"""Address scopes of the API, on the routers of a host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.wait import wait_until
from tests.system.l3.environment import RoutedCloud, is_reached, routed_cloud, stays_reached

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@pytest.fixture
def routed() -> Iterator[RoutedCloud]:
    sandbox.require()
    with routed_cloud() as made:
        yield made


def make_pool(network: Any, prefix: str, scope: str | None) -> Any:
    lengths = {"default_prefix_length": 24, "minimum_prefix_length": 24}
    return network.create_subnet_pool(
        name=prefix, prefixes=[prefix], address_scope_id=scope, **lengths
    )


def make_network(network: Any, name: str, pool: Any, **more: Any) -> tuple[Any, Any]:
    made = network.create_network(name=name, **more)
    subnet = network.create_subnet(network_id=made.id, ip_version=4, subnet_pool_id=pool.id)
    return made, subnet


@pytest.mark.spec("API-07", "L3-23")
def test_networks_of_one_scope_are_routed_without_nat_and_others_are_not(
    routed: RoutedCloud,
) -> None:
    network = routed.network
    scope = network.create_address_scope(name="scope", ip_version=4).id
    inner, outer = (make_pool(network, prefix, scope) for prefix in ("10.1.0.0/16", "192.0.2.0/24"))
    apart = make_pool(network, "10.2.0.0/16", None)
    blue, blue_subnet = make_network(network, "blue", inner)
    red, red_subnet = make_network(network, "red", apart)
    outside, _ = make_network(network, "outside", outer, is_router_external=True)
    router = network.create_router(name="edge", external_gateway_info={"network_id": outside.id})
    for subnet in (blue_subnet, red_subnet):
        network.add_interface_to_router(router, subnet=subnet.id)
    gateway = router.external_gateway_info["external_fixed_ips"][0]["ip_address"]
    _, vm = routed.boot("vm", blue, "10.1.0.11")
    _, other = routed.boot("other", red, "10.2.0.11")
    _, world = routed.boot("world", outside, "192.0.2.200")
    vm.configure(["10.1.0.11/24"], ["10.1.0.1"])
    other.configure(["10.2.0.11/24"], ["10.2.0.1"])
    world.configure(["192.0.2.200/24"], [gateway])
    wait_until(lambda: is_reached(world, "10.1.0.11"))  # as it is, in one scope
    wait_until(lambda: is_reached(other, "192.0.2.200"))  # translated
    assert stays_reached(vm, "192.0.2.200")
    assert not is_reached(world, "10.2.0.11")
    assert not is_reached(vm, "10.2.0.11")
    network.update_subnet_pool(inner, address_scope_id=None)
    wait_until(lambda: not is_reached(world, "10.1.0.11"))
    wait_until(lambda: is_reached(vm, "10.2.0.11"))  # both without a scope
    _, new = routed.boot("new", blue, "10.1.0.12")
    new.configure(["10.1.0.12/24"], ["10.1.0.1"])
    wait_until(lambda: is_reached(new, "192.0.2.200"))  # translated
