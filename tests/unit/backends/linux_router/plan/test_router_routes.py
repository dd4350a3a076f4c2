"""Routes of a router, and those that are left out."""

from __future__ import annotations

from ipaddress import ip_address, ip_interface, ip_network

import pytest
from attrs import evolve

from netfw.linux.ip.operations import AddRoute
from netfw.model.route import Route
from netfw_drivers.linux_router.plan.router_routes import (
    CONNECTED,
    NOT_A_HOST,
    OWN_ADDRESS,
    UNREACHABLE,
    RouterRoutes,
    make_routes,
)
from tests.unit.backends.linux_router.samples import GATEWAY

INSIDE = [(ip_interface("10.0.0.1/24"), "qr-1"), (ip_interface("fd00::1/64"), "qr-1")]
OUTSIDE = [(each, "qg-1") for each in GATEWAY.port.addresses]
BARE = evolve(GATEWAY, next_hops=())


def routes(*pairs: str, gateway: object = BARE) -> RouterRoutes:
    wanted = [Route(destination=to, nexthop=hop) for to, hop in map(str.split, pairs)]
    return make_routes(wanted, gateway, "qg-1", [*INSIDE, *OUTSIDE])  # type: ignore[arg-type]


def texts(found: RouterRoutes) -> list[str]:
    return [
        AddRoute(each).text.removeprefix("ip route add ").removesuffix(" table 254")
        for each in found.routes.values()
    ]


@pytest.mark.spec("L3-25")
@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        ("198.51.100.0/24 192.0.2.1", UNREACHABLE),
        ("2001:db8:99::/64 fe80::7", UNREACHABLE),
        ("10.0.0.0/24 203.0.113.7", CONNECTED),
        ("203.0.113.0/24 10.0.0.7", CONNECTED),
        ("fd00::/64 2001:db8::7", CONNECTED),
        ("198.51.100.0/24 10.0.0.1", OWN_ADDRESS),
        ("198.51.100.0/24 10.0.0.255", NOT_A_HOST),
        ("198.51.100.0/24 10.0.0.0", NOT_A_HOST),
    ],
)
def test_a_route_that_cannot_be_is_left_out_with_its_reason(pair: str, reason: str) -> None:
    found = routes("198.51.99.0/24 10.0.0.7", pair)
    assert texts(found) == ["198.51.99.0/24 via 10.0.0.7 dev qr-1"]
    to, hop = pair.split()
    assert found.left_out == {f"route to {to} via {hop}": reason}


@pytest.mark.spec("L3-25")
def test_the_other_next_hops_of_a_multipath_route_stay() -> None:
    found = routes("198.51.100.0/24 10.0.0.7", "198.51.100.0/24 192.0.2.1")
    assert texts(found) == ["198.51.100.0/24 via 10.0.0.7 dev qr-1"]
    assert len(found.left_out) == 1


@pytest.mark.spec("L3-25")
def test_a_part_of_a_connected_network_can_be_a_destination() -> None:
    """A next hop in that part is still on the link."""
    found = routes("10.0.0.128/25 10.0.0.7", "198.51.100.0/24 10.0.0.130")
    assert texts(found) == [
        "10.0.0.128/25 via 10.0.0.7 dev qr-1",
        "198.51.100.0/24 via 10.0.0.130 dev qr-1 onlink",
    ]
    assert not found.left_out


@pytest.mark.spec("L3-22")
def test_a_subnet_of_the_external_network_that_is_also_inside_is_left_out() -> None:
    subnets = (ip_network("10.0.0.0/24"), ip_network("203.0.114.0/24"))
    found = routes("198.51.100.0/24 203.0.114.7", gateway=evolve(BARE, onlink_subnets=subnets))
    assert texts(found) == [
        "203.0.114.0/24 dev qg-1",
        "198.51.100.0/24 via 203.0.114.7 dev qg-1",
    ]
    assert found.left_out == {"route to 10.0.0.0/24 of the external network": CONNECTED}


def test_a_gateway_whose_next_hop_is_the_router_has_no_default_route() -> None:
    found = routes(gateway=evolve(BARE, next_hops=(ip_address("203.0.113.5"),)))
    assert not found.routes
    assert found.left_out == {"default route via 203.0.113.5": OWN_ADDRESS}
