"""Policy routing of local parts."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from uuid import UUID

import pytest

from netfw.drivers.values.router_values import LocalRouter
from netfw.linux.ip.values import IpRule
from netfw.model.subnet import Subnet
from netfw.model.values.ids import SubnetId
from netfw_drivers.linux_router.distributed.local_routing import (
    LocalRouting,
    is_local,
    route_to_central,
    route_to_gateway,
    subnet_tables,
)
from tests.unit.backends.linux_router.samples import NETWORK, port

SUBNETS = [
    Subnet(id=SubnetId(UUID(int=number)), network_id=NETWORK, cidr=ip_network(cidr))
    for number, cidr in enumerate(("10.0.0.0/24", "10.0.1.0/24", "fd00::/64"), 61)
]
INTERFACE = port(0, "10.0.0.1/24", "10.0.1.1/24", "fd00::1/64", subnets=tuple(SUBNETS))


def local(*addresses: str) -> LocalRouter:
    """Return a local part whose subnets have these addresses of the central part."""
    vias = (ip_address(each) for each in addresses)
    return LocalRouter(
        interfaces=(INTERFACE,),
        snat_addresses={subnet.id: via for subnet, via in zip(SUBNETS, vias, strict=False)},
    )


def tables(routing: LocalRouting) -> dict[str, int]:
    return {str(rule.source): rule.table for rule in routing.rules}


@pytest.mark.spec("L3-63")
def test_each_subnet_has_a_rule_and_a_table() -> None:
    routing = route_to_central(local("10.0.0.5", "10.0.1.5", "fd00::5"), lambda _: "qr-1", {})
    assert tables(routing) == {"10.0.0.0/24": 1000, "10.0.1.0/24": 1001, "fd00::/64": 1002}
    assert all(rule.priority == 40000 for rule in routing.rules)
    assert {(each.table, str(each.hops[0].via)) for each in routing.routes} == {
        (1000, "10.0.0.5"),
        (1001, "10.0.1.5"),
        (1002, "fd00::5"),
    }
    assert not any(hop.onlink for each in routing.routes for hop in each.hops)


@pytest.mark.spec("L3-63")
def test_tables_in_force_are_kept_and_the_lowest_free_one_is_taken() -> None:
    present = subnet_tables(
        [
            IpRule(priority=40000, source="10.0.1.0/24", table=1000),
            IpRule(priority=40000, source="10.9.0.0/24", table=1001),
            IpRule(priority=32768, source="10.0.0.9/32", table=16),
            IpRule(priority=32766),
        ]
    )
    assert present == {ip_network("10.0.1.0/24"): 1000, ip_network("10.9.0.0/24"): 1001}
    wanted = local("10.0.0.5", "10.0.1.5")
    routing = route_to_central(wanted, lambda _: "qr-1", present)
    assert tables(routing) == {"10.0.0.0/24": 1001, "10.0.1.0/24": 1000}
    assert route_to_central(wanted, lambda _: "qr-1", subnet_tables(routing.rules)) == routing


def test_two_subnets_with_one_table_get_two() -> None:
    present = {SUBNETS[0].cidr: 1000, SUBNETS[1].cidr: 1000}
    routing = route_to_central(local("10.0.0.5", "10.0.1.5"), lambda _: "qr-1", present)
    assert tables(routing) == {"10.0.0.0/24": 1000, "10.0.1.0/24": 1001}


def test_a_subnet_without_a_central_part_has_no_rule() -> None:
    routing = route_to_central(local(), lambda _: "qr-1", {})
    assert routing == LocalRouting()


def test_an_address_outside_the_networks_of_the_interface_is_on_the_link() -> None:
    routing = route_to_central(local("192.0.2.5"), lambda _: "qr-1", {})
    assert routing.routes[0].hops[0].onlink


@pytest.mark.spec("L3-62")
def test_ports_with_floating_ips_leave_by_the_link() -> None:
    fixed = [ip_address("10.0.0.9"), ip_address("10.0.0.9"), ip_address("10.0.0.8")]
    routing = route_to_gateway(fixed, ip_address("169.254.64.1"), "rfp-1")
    assert [(rule.priority, str(rule.source), rule.table) for rule in routing.rules] == [
        (32768, "10.0.0.9/32", 16),
        (32768, "10.0.0.8/32", 16),
    ]
    assert [each.table for each in routing.routes] == [16]
    assert is_local(routing.rules)
    assert not is_local([IpRule(priority=32766)])
