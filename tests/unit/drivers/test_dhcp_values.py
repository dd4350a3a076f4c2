"""What a network asks of the device that it is served from."""

from __future__ import annotations

from ipaddress import ip_address, ip_interface
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.dhcp import DhcpNetwork, ServerPort
from netfw.drivers.support.classless_routes import (
    advertised_gateway,
    advertised_routes,
    omitted_routes,
)
from netfw.drivers.support.dhcp_options import routes as coded_routes
from netfw.model.subnet import Subnet
from netfw.model.values.ids import NetworkId, PortId, SegmentId, SubnetId
from netfw.model.values.route import Route

OWN = (ip_interface("10.0.0.2/24"), ip_interface("fd00::2/64"))


def subnet(number: int, cidr: str, gateway: str | None = None, **more: Any) -> Subnet:
    network = NetworkId(UUID(int=1))
    id = SubnetId(UUID(int=number))
    return Subnet(id=id, network_id=network, cidr=cidr, gateway=gateway, **more)  # type: ignore[arg-type]


def network(*subnets: Subnet, **more: Any) -> DhcpNetwork:
    server = ServerPort(id=PortId(UUID(int=9)), mac="fa:16:3e:00:00:01", addresses=OWN)
    return DhcpNetwork(server=server, subnets=subnets, mtu=1500, **more)


@pytest.mark.spec("DHCP-26")
def test_the_metadata_service_has_an_address_of_each_family_where_it_is_reached() -> None:
    four, six = subnet(1, "10.0.0.0/24"), subnet(2, "fd00::/64")
    assert network(four, six).addresses == OWN
    metadata = (ip_interface("169.254.169.254/32"), ip_interface("fe80::a9fe:a9fe/128"))
    wanted = frozenset({four.id})
    assert network(four, metadata_for=wanted).addresses == (*OWN, *metadata)
    assert network(four, six, metadata_for=wanted).addresses == (*OWN, *metadata)


@pytest.mark.spec("DHCP-27")
def test_a_default_route_is_that_of_the_first_served_subnet_with_a_gateway() -> None:
    subnets = (
        subnet(1, "10.0.0.0/24", "10.0.0.1", enable_dhcp=False),
        subnet(2, "10.1.0.0/24"),
        subnet(3, "fd00::/64", "fd00::1"),
        subnet(4, "10.2.0.0/24", "198.51.100.1"),
        subnet(5, "10.3.0.0/24", "10.3.0.1"),
    )
    assert network(*subnets).gateways == (ip_address("198.51.100.1"), ip_address("fd00::1"))
    assert network(*subnets[:2]).gateways == ()


def routes(*pairs: tuple[str, str]) -> set[tuple[str, str]]:
    return {*pairs}


@pytest.mark.spec("DHCP-43")
def test_all_routes_are_advertised_or_none() -> None:
    def destinations(one: Subnet, *others: Subnet, **more: Any) -> set[tuple[str, str]]:
        found = advertised_routes(network(one, *others, **more), one)
        return {(str(route.destination), str(route.nexthop)) for route in found}

    plain, six = subnet(1, "10.0.0.0/24", "10.0.0.1"), subnet(2, "fd00::/64", "fd00::1")
    default = ("0.0.0.0/0", "10.0.0.1")
    assert destinations(plain, six) == set(), "the gateway says it all"
    near = subnet(3, "10.3.0.0/24", enable_dhcp=False)
    far = subnet(4, "10.4.0.0/24", segment_id=SegmentId(UUID(int=7)))
    assert destinations(plain, six, near, far) == routes(("10.3.0.0/24", "0.0.0.0"), default)
    metadata = ("169.254.169.254/32", "10.0.0.2")
    assert destinations(plain, metadata_for=frozenset({plain.id})) == routes(metadata, default)
    assert destinations(plain, metadata_for=frozenset({six.id})) == set()
    outside = evolve(plain, gateway="198.51.100.1")
    way = (("198.51.100.1/32", "0.0.0.0"), ("0.0.0.0/0", "198.51.100.1"))
    assert destinations(outside) == routes(*way)
    own = Route(destination="10.3.0.0/24", nexthop="10.0.0.9")
    assert destinations(evolve(plain, host_routes=(own,)), near) == routes(
        ("10.3.0.0/24", "10.0.0.9"), default
    )
    everywhere = Route(destination="0.0.0.0/0", nexthop="10.0.0.8")
    bare = evolve(plain, gateway=None, host_routes=(everywhere,))
    assert destinations(bare) == set()
    assert advertised_gateway(bare) == ip_address("10.0.0.8")
    assert destinations(bare, near) == routes(("10.3.0.0/24", "0.0.0.0"), ("0.0.0.0/0", "10.0.0.8"))


@pytest.mark.spec("DHCP-43")
def test_derived_routes_are_omitted_first_when_too_many() -> None:
    # A network of many subnets is served all the same.
    own = [Route(destination=f"192.0.{n}.0/24", nexthop="10.0.0.9") for n in range(20)]
    one = subnet(1, "10.0.0.0/24", "10.0.0.1", host_routes=tuple(own))
    others = [subnet(n, f"10.{n}.0.0/24") for n in range(2, 42)]
    advertised = advertised_routes(network(one, *others, metadata_for=frozenset({one.id})), one)
    assert set(own) <= set(advertised)
    assert str(advertised[-1].destination) == "0.0.0.0/0"
    assert "169.254.169.254/32" in {str(each.destination) for each in advertised}
    beside = [each for each in advertised if str(each.nexthop) == "0.0.0.0"]
    assert 0 < len(beside) < len(others)
    assert len(coded_routes(advertised)) <= 255


@pytest.mark.spec("DHCP-43")
def test_routes_of_the_subnet_for_which_there_is_no_room_are_known() -> None:
    hop = ip_address("10.0.0.3")
    many = tuple(Route(destination=f"192.168.{n}.7/32", nexthop=hop) for n in range(30))
    everywhere = Route(destination="0.0.0.0/0", nexthop=hop)
    few = subnet(1, "10.0.0.0/24", "10.0.0.1", host_routes=(everywhere, *many[:20]))
    assert omitted_routes(network(few), few) == ()
    full = evolve(few, host_routes=(everywhere, *many))
    advertised = advertised_routes(network(full), full)
    assert set(omitted_routes(network(full), full)) == set(many) - set(advertised)
    assert omitted_routes(network(full), full) == many[21:]
