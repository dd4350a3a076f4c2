"""Routes of a router, and those that are left out."""

from __future__ import annotations

from ipaddress import ip_address, ip_interface, ip_network

import pytest
from attrs import evolve

from netfw.linux.ip.operations import AddRoute
from netfw.model.values.route import Route
from netfw_drivers.linux_router.plan.router_routes import (
    CONNECTED,
    NOT_A_HOST,
    OWN_ADDRESS,
    TWO_DEVICES,
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
        AddRoute(each)
        .text.removeprefix("ip route add ")
        .replace(" metric 1024", "")
        .removesuffix(" table 254")
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
    # A next hop in that part is still on the link.
    found = routes("10.0.0.128/25 10.0.0.7", "198.51.100.0/24 10.0.0.130")
    assert texts(found) == [
        "198.51.100.0/24 via 10.0.0.130 dev qr-1 onlink",
        "10.0.0.128/25 via 10.0.0.7 dev qr-1",
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


PROVIDER = evolve(BARE, next_hops=(ip_address("2001:db8::1"),))


@pytest.mark.spec("L3-25")
@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (
            ["fd00::20/128 fd00::20", "2001:db8:77::/48 fd00::20"],
            [
                "2001:db8:77::/48 via fd00::20 dev qr-1 onlink",
                "fd00::20/128 via fd00::20 dev qr-1 onlink",
            ],
        ),
        (
            ["fd00::20/128 2001:db8::7", "2001:db8:77::/48 fd00::20"],
            [
                "2001:db8:77::/48 via fd00::20 dev qr-1",
                "fd00::20/128 via 2001:db8::7 dev qg-1",
            ],
        ),
    ],
    ids=["same device", "other device"],
)
def test_an_ipv6_next_hop_that_a_route_hides_is_onlink_if_that_is_on_its_device(
    pairs: list[str], expected: list[str]
) -> None:
    # The kernel refuses the opposite in both cases.
    for order in (pairs, pairs[::-1]):
        found = routes(*order)
        assert texts(found) == expected
        assert not found.left_out


@pytest.mark.spec("L3-25")
@pytest.mark.parametrize(
    ("via", "default"),
    [
        ("2001:db8::1", "::/0 via 2001:db8::1 dev qg-1 onlink"),
        ("fd00::20", "::/0 via 2001:db8::1 dev qg-1"),
    ],
)
def test_a_route_to_the_next_hop_of_the_gateway_keeps_the_default_route(
    via: str, default: str
) -> None:
    found = routes(f"2001:db8::1/128 {via}", gateway=PROVIDER)
    assert texts(found)[0] == default
    assert len(found.routes) == 2
    assert not found.left_out


@pytest.mark.spec("L3-25")
def test_a_route_that_leads_to_an_ipv6_next_hop_through_a_second_device_is_left_out() -> None:
    pairs = ["fd00::/80 2001:db8::7", "fd00::20/128 fd00::20", "2001:db8:77::/48 fd00::20"]
    for order in (pairs, pairs[::-1]):
        found = routes(*order)
        assert texts(found) == [
            "2001:db8:77::/48 via fd00::20 dev qr-1",
            "fd00::/80 via 2001:db8::7 dev qg-1",
        ]
        assert found.left_out == {"route to fd00::20/128 via fd00::20": TWO_DEVICES}


@pytest.mark.spec("L3-25")
def test_a_route_that_hides_a_provider_outside_of_its_subnets_is_left_out() -> None:
    # Only ``onlink`` can reach such a next hop, and the kernel refuses it.
    far = evolve(BARE, next_hops=(ip_address("2001:db8:5::1"),))
    found = routes("2001:db8:5::/48 fd00::20", gateway=far)
    assert texts(found) == ["::/0 via 2001:db8:5::1 dev qg-1 onlink"]
    assert found.left_out == {"route to 2001:db8:5::/48 via fd00::20": TWO_DEVICES}


@pytest.mark.spec("L3-25")
def test_a_default_route_of_a_user_replaces_that_of_the_gateway() -> None:
    assert texts(routes("::/0 fd00::20", gateway=PROVIDER)) == ["::/0 via fd00::20 dev qr-1"]
