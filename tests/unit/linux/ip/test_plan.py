"""What the plans of addresses, routes, rules, neighbours and parameters decide."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from attrs import evolve

from netfw.linux.ip.operations import (
    AddAddress,
    AddRoute,
    AddRule,
    DelAddress,
    DelNeighbour,
    DelRoute,
    DelRule,
    SetNeighbour,
    SetSysctl,
)
from netfw.linux.ip.plan import (
    plan_addresses,
    plan_neighbours,
    plan_routes,
    plan_rules,
    plan_sysctl,
)
from netfw.linux.ip.values import (
    PROTOCOL_BOOT,
    PROTOCOL_KERNEL,
    Address,
    FoundAddress,
    IpRoute,
    IpRule,
    Neighbour,
    NextHop,
    Scope,
    addresses,
    route,
)
from netfw.model.values.address import Mac

ONE, TWO, THREE = addresses("e0", ["10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24"])
SIX = Address(device="e0", interface="fd00::2/64")


def found(address: Address, **details: bool) -> FoundAddress:
    return FoundAddress(address=evolve(address, scope=Scope.GLOBAL), **details)


@pytest.mark.spec("DHCP-26")
def test_missing_addresses_are_added_and_stale_ones_removed_first():
    assert plan_addresses([TWO, SIX], [found(ONE)]) == (
        DelAddress(evolve(ONE, scope=Scope.GLOBAL)),
        AddAddress(TWO),
        AddAddress(SIX),
    )


@pytest.mark.spec("DHCP-26")
def test_addresses_that_agree_need_nothing():
    assert plan_addresses([ONE, SIX], [found(SIX), found(ONE)]) == ()
    assert plan_addresses([ONE], [found(evolve(ONE, nodad=True))]) == ()


@pytest.mark.spec("DHCP-26")
def test_addresses_with_a_lifetime_and_the_kernels_link_local_one_do_not_count():
    local = Address(device="e0", interface="fe80::1/64")
    assert plan_addresses([], [found(SIX, permanent=False), found(local, automatic=True)]) == ()
    by_hand = found(Address(device="e0", interface="fe80::a9fe:a9fe/128"))
    assert plan_addresses([], [by_hand]) == (DelAddress(by_hand.address),)


@pytest.mark.spec("DHCP-26")
def test_an_address_with_a_lifetime_becomes_permanent_when_wanted():
    assert plan_addresses([SIX], [found(SIX, permanent=False)]) == (AddAddress(SIX, replace=True),)


def test_addresses_that_went_with_the_first_of_their_network_are_put_back():
    other = Address(device="e0", interface="10.9.0.1/24")
    present = [found(ONE), found(TWO, secondary=True), found(other, secondary=True)]
    assert plan_addresses([TWO, other], present) == (
        DelAddress(evolve(ONE, scope=Scope.GLOBAL)),
        AddAddress(TWO, replace=True),
    )
    assert plan_addresses([ONE], [found(ONE), found(TWO, secondary=True)]) == (
        DelAddress(evolve(TWO, scope=Scope.GLOBAL)),
    )


def test_what_cannot_be_changed_in_place_is_removed_and_added():
    link = evolve(ONE, scope=Scope.LINK)
    assert plan_addresses([link], [found(ONE)]) == (
        DelAddress(evolve(ONE, scope=Scope.GLOBAL)),
        AddAddress(link),
    )
    duplicate = found(SIX, duplicate=True)
    assert plan_addresses([SIX], [duplicate]) == (DelAddress(duplicate.address), AddAddress(SIX))
    bare = evolve(SIX, noprefixroute=True)
    assert plan_addresses([bare], [found(SIX)]) == (AddAddress(bare, replace=True),)


def test_an_address_with_a_peer_is_another_one():
    foreign = evolve(ONE, peer="10.0.9.9")
    assert plan_addresses([ONE], [found(ONE), found(foreign)]) == (
        DelAddress(evolve(foreign, scope=Scope.GLOBAL)),
    )
    assert plan_addresses([ONE], [found(foreign), found(ONE, secondary=True)]) == (
        DelAddress(evolve(foreign, scope=Scope.GLOBAL)),
    )
    near = evolve(THREE, peer="10.0.0.9")
    assert plan_addresses([ONE], [found(near), found(ONE, secondary=True)]) == (
        DelAddress(evolve(near, scope=Scope.GLOBAL)),
        AddAddress(ONE, replace=True),
    )


def test_addresses_of_two_devices_are_two():
    other = evolve(ONE, device="e1")
    assert plan_addresses([ONE, other], [found(ONE)]) == (AddAddress(other),)


DEFAULT = route("default", via="10.0.0.1")
AS_FOUND = route("default", via="10.0.0.1", device="e0", scope=Scope.GLOBAL)


def test_what_a_wanted_route_leaves_open_may_be_anything():
    assert plan_routes([DEFAULT], [AS_FOUND]) == ()
    elsewhere = route("default", via="10.0.0.1", device="e1")
    assert plan_routes([elsewhere], [AS_FOUND]) == (AddRoute(elsewhere, replace=True),)


def test_routes_are_added_before_others_are_removed_and_gateways_after_their_links():
    link = route("192.0.2.0/24", device="e0")
    beyond = route("198.51.100.0/24", via="192.0.2.1")
    stale = route("203.0.113.0/24", device="e0", protocol=PROTOCOL_BOOT)
    assert plan_routes([beyond, link], [stale]) == (
        AddRoute(link),
        AddRoute(beyond),
        DelRoute(stale),
    )


def test_routes_of_others_are_neither_removed_nor_replaced():
    kernel = route("10.0.0.0/24", device="e0", protocol=PROTOCOL_KERNEL)
    assert plan_routes([], [kernel]) == ()
    wanted = route("10.0.0.0/24", device="e1")
    assert plan_routes([wanted], [kernel]) == (AddRoute(wanted),)
    assert plan_routes([], [kernel], owned=lambda _route: True) == (DelRoute(kernel),)


def test_of_several_routes_of_one_key_one_stays():
    rival = evolve(AS_FOUND, hops=(NextHop(via="10.0.0.9", device="e0"),))
    odd = evolve(AS_FOUND, other=frozenset({"attribute 8"}))
    assert plan_routes([DEFAULT], [rival, AS_FOUND]) == (DelRoute(rival),)
    assert plan_routes([DEFAULT], [rival, odd]) == (
        AddRoute(DEFAULT, replace=True),
        DelRoute(odd),
    )
    daemon = evolve(rival, protocol=12)
    assert plan_routes([DEFAULT], [daemon, AS_FOUND]) == ()


def test_routes_with_a_selector_are_others():
    special = evolve(AS_FOUND, selector="tos 0x10")
    assert plan_routes([DEFAULT], [special]) == (AddRoute(DEFAULT), DelRoute(special))


def test_an_ipv6_route_is_added_again_when_a_rival_is_removed():
    # The kernel may remove either route if the command names no gateway.
    kept = route("default", via="fd00::1", device="e0")
    rival = route("::/0", device="e0")
    again = AddRoute(kept, replace=True)
    assert plan_routes([kept], [rival, kept]) == (DelRoute(rival), again)
    other = route("default", via="fd00::9", device="e0")
    assert plan_routes([kept], [rival, other]) == (again, DelRoute(rival), again)


def test_the_metric_and_the_table_tell_routes_apart():
    slow, other = evolve(DEFAULT, metric=10), evolve(DEFAULT, table=7)
    assert plan_routes([DEFAULT, slow, other], [AS_FOUND]) == (AddRoute(slow), AddRoute(other))


def test_the_order_of_next_hops_does_not_matter_and_their_weight_does():
    a, b = (NextHop(via=ip_address(f"10.0.0.{n}"), device="e0") for n in (1, 2))
    both = IpRoute(destination="10.9.0.0/16", hops=(a, b))
    assert plan_routes([both], [evolve(both, hops=(b, a))]) == ()
    heavier = evolve(both, hops=(evolve(a, weight=2), b))
    assert plan_routes([heavier], [both]) == (AddRoute(heavier, replace=True),)
    twice = evolve(both, hops=(a, a))
    assert plan_routes([twice], [both]) == (AddRoute(twice, replace=True),)


def test_ipv6_routes_have_their_usual_metric():
    assert route("fd00::/64", device="e0").metric == 1024
    assert route("10.0.0.0/8", device="e0").metric == 0
    with pytest.raises(ValueError, match="no metric 0"):
        AddRoute(route("fd00::/64", device="e0", metric=0))


def test_a_default_route_takes_the_family_of_its_gateway():
    assert str(route("default", via="fd00::1").destination) == "::/0"
    with pytest.raises(ValueError, match="without a gateway"):
        route("default", device="e0")


def test_rules_are_added_before_others_are_removed():
    old, new = IpRule(priority=100, table=1), IpRule(priority=100, table=2)
    kernel = IpRule(priority=32766, protocol=PROTOCOL_KERNEL)
    special = IpRule(priority=50, other=frozenset({"FRA_IP_PROTO"}))
    assert plan_rules([new], [kernel, special, old]) == (
        AddRule(new),
        DelRule(special),
        DelRule(old),
    )
    assert plan_rules([new, new], [evolve(new, protocol=PROTOCOL_BOOT)]) == ()


def test_a_rule_is_of_one_family():
    assert IpRule(priority=1, source="fd00::/64").version == 6
    with pytest.raises(ValueError, match="is not of IPv6"):
        IpRule(priority=1, source="fd00::/64", destination="10.0.0.0/8")


def test_neighbours_are_set_changed_and_removed():
    here = Neighbour(device="e0", address="10.0.0.5", mac=Mac("fa:16:3e:00:00:05"))
    moved = evolve(here, mac=Mac("fa:16:3e:00:00:06"))
    proxy = Neighbour(device="e0", address="10.0.0.5", proxy=True)
    assert plan_neighbours([here], [here]) == ()
    assert plan_neighbours([moved], [here]) == (SetNeighbour(moved),)
    assert plan_neighbours([proxy], [here]) == (SetNeighbour(proxy), DelNeighbour(here))
    with pytest.raises(ValueError, match="one of the two"):
        Neighbour(device="e0", address="10.0.0.5")


def test_parameters_that_differ_are_set_and_spacing_does_not_matter():
    wanted = {"net.ipv4.ip_forward": "1", "net.ipv4.tcp_rmem": "1 2 3"}
    have = {"net.ipv4.ip_forward": "0", "net.ipv4.tcp_rmem": "1\t2\t3"}
    assert plan_sysctl(wanted, have) == (SetSysctl("net.ipv4.ip_forward", "1"),)
