"""Links between routers and agent gateways."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, ip_interface

import pytest
from attrs import evolve

from netfw.errors import Exhausted
from netfw.linux.ip.values import FoundAddress, IpRoute, Link, addresses, route
from netfw.linux.service_netns.values import ObservedNetns
from netfw_drivers.linux_router.distributed.gateway_link import (
    ADDRESSES,
    GatewayLink,
    LinkPair,
    allocate_pair,
    find_pair,
)
from netfw_drivers.linux_router.plan.names import link_devices
from tests.unit.backends.linux_router.samples import EXTERNAL, FIPS, ROUTER, translation

PAIR = LinkPair(IPv4Network("169.254.64.2/31"))
RFP, FPR = link_devices(ROUTER)
NEW = GatewayLink(router=ROUTER, network=EXTERNAL, pair=PAIR, mtu=1450)
SERVED = {FIPS[0]: translation()}
ROUTES = (route("203.0.113.9/32", via="169.254.64.2", device=FPR),)
SYSCTLS = GatewayLink.parameters(ROUTER)


def found(*routes: IpRoute, up: bool = True, mtu: int = 1450) -> ObservedNetns:
    """Return the namespace of an agent gateway with the link of the router."""
    own = addresses(FPR, ["169.254.64.3/31"])
    return ObservedNetns(
        netns=NEW.netns,
        exists=True,
        links={FPR: Link(name=FPR, index=3, mtu=mtu, up=up, state="up", kind="veth")},
        addresses=tuple(FoundAddress(address=each) for each in own),
        routes=routes,
        sysctls=SYSCTLS,
    )


def texts(link: GatewayLink, served=SERVED) -> list[str]:  # type: ignore[no-untyped-def]
    stages = (*link.plan_withdrawals(served), *link.plan_gateway_end(served))
    return [operation.text for stage in stages for operation in stage.operations]


@pytest.mark.spec("L3-62")
def test_the_lowest_free_pair_is_allocated() -> None:
    taken = {IPv4Address("169.254.64.1"), IPv4Address("169.254.64.4")}
    assert allocate_pair(()) == LinkPair(IPv4Network("169.254.64.0/31"))
    assert allocate_pair(taken) == PAIR
    with pytest.raises(Exhausted, match="8192"):
        allocate_pair(frozenset(ADDRESSES))


@pytest.mark.spec("L3-62")
@pytest.mark.parametrize(
    ("address", "pair"),
    [
        ("169.254.64.3/31", PAIR),
        ("169.254.64.2/31", None),  # the router's end
        ("169.254.64.3/32", None),
        ("169.254.0.3/31", None),
        ("203.0.113.3/31", None),
    ],
)
def test_the_pair_is_read_back_from_the_gateways_end(address: str, pair: LinkPair | None) -> None:
    there = [FoundAddress(address=each) for each in addresses(FPR, [address])]
    assert find_pair(there, FPR) == pair
    assert find_pair(there, "fpr-other") is None


@pytest.mark.spec("L3-62")
def test_a_new_link_has_its_route_last() -> None:
    made = texts(NEW)
    assert made[0] == f"ip link set {FPR} mtu 1450"
    assert made[-1].startswith("ip route add 203.0.113.9/32 via 169.254.64.2")
    assert NEW.netns_link().addresses == (ip_interface("169.254.64.2/31"),)
    assert not NEW.netns_link().is_broken


def test_a_link_as_it_should_be_plans_nothing() -> None:
    link = evolve(NEW, has_router_end=True).observed_in(found(*ROUTES))
    assert link.is_complete
    assert texts(link) == []
    assert not link.differs(found(*ROUTES), SERVED)
    assert link.differs(found(), SERVED)
    assert texts(NEW, {}) == []
    without_ipv6 = evolve(link, sysctls={})
    assert texts(without_ipv6) == []


@pytest.mark.parametrize(
    ("there", "text"),
    [
        (found(), "ip route add 203.0.113.9/32"),
        (found(*ROUTES, up=False), f"ip link set {FPR} up"),
        (found(*ROUTES, mtu=1500), f"ip link set {FPR} mtu 1450"),
        (evolve(found(*ROUTES), sysctls=dict.fromkeys(SYSCTLS, "7")), "sysctl -w"),
        (evolve(found(*ROUTES), addresses=()), "ip address add 169.254.64.3/31"),
    ],
)
def test_what_differs_is_planned(there: ObservedNetns, text: str) -> None:
    link = evolve(NEW, has_router_end=True).observed_in(there)
    planned = texts(link)
    assert planned
    assert all(each.startswith(text) for each in planned)


@pytest.mark.spec("L3-62")
def test_the_route_of_a_removed_floating_ip_is_removed_first() -> None:
    old = route("203.0.113.8/32", via="169.254.64.2", device=FPR)
    other = route("203.0.113.7/32", via="169.254.64.0", device="fpr-other")
    link = evolve(NEW, has_router_end=True).observed_in(found(old, other))
    assert [each.split()[2] for each in texts(link)] == ["delete", "add"]
    assert "203.0.113.8" in texts(link)[0]


@pytest.mark.parametrize(("router_end", "gateway_end"), [(True, False), (False, True)])
def test_a_pair_without_one_end_is_made_anew(router_end: bool, gateway_end: bool) -> None:
    there = found() if gateway_end else evolve(found(), links={}, addresses=())
    link = evolve(NEW, has_router_end=router_end).observed_in(there)
    assert link.netns_link().is_broken


@pytest.mark.spec("L3-67", "ML2-08")
def test_a_prepared_floating_ip_has_its_link_and_no_route() -> None:
    made = [op.text for stage in NEW.plan_gateway_end(SERVED, {FIPS[0]}) for op in stage.operations]
    assert f"ip link set {FPR} up" in made
    assert not any(each.startswith("ip route") for each in made)
    link = evolve(NEW, has_router_end=True).observed_in(found(*ROUTES))
    assert [*link.without_route(SERVED)] == []
    (stage,) = link.plan_withdrawals(SERVED, {FIPS[0]})
    assert [each.text.split()[:3] for each in stage.operations] == [["ip", "route", "delete"]]
    withdrawn = link.observed_in(found())
    assert [*withdrawn.without_route(SERVED)] == [FIPS[0]]
    assert not withdrawn.differs(found(), SERVED, {FIPS[0]})
