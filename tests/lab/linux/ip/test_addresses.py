"""Addresses, with and without IPv6, on the real kernel, compared with ``ip``."""

from __future__ import annotations

from ipaddress import ip_interface, ip_network

import pytest
from attrs import evolve

from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import AddAddress, AddRoute, SetSysctl
from netfw.linux.ip.plan import plan_addresses
from netfw.linux.ip.values import Address, Scope, addresses, route
from tests.lab.linux.ip.converge import converge_addresses


def cidrs(network: NetlinkClient, device: str = "e0") -> set[str]:
    return {
        str(entry.address.interface) for entry in network.addresses(device) if not entry.automatic
    }


@pytest.mark.spec("DHCP-26")
def test_addresses_become_those_that_are_wanted(blue, ip):
    first = addresses("e0", ["10.0.0.2/24", "169.254.169.254/32", "fd00::2/64"])
    assert converge_addresses(blue, "e0", first) == ()
    assert cidrs(blue) == {"10.0.0.2/24", "169.254.169.254/32", "fd00::2/64"}
    second = addresses("e0", ["10.0.0.3/24", "fd00::2/64", "fe80::a9fe:a9fe/128"])
    removed = converge_addresses(blue, "e0", second)
    assert {str(address.interface) for address in removed} == {"10.0.0.2/24", "169.254.169.254/32"}
    assert cidrs(blue) == {"10.0.0.3/24", "fd00::2/64", "fe80::a9fe:a9fe/128"}
    assert plan_addresses(second, blue.addresses("e0")) == ()
    listed = ip("-n", "blue", "address", "show", "dev", "e0")[0]["addr_info"]
    own = [e["local"] for e in listed if e["local"].startswith("fe80:") and e["prefixlen"] == 64]
    assert len(own) == 1, "the device keeps its own link-local address"
    assert converge_addresses(blue, "e0", second[:1]) != ()
    assert cidrs(blue) == {"10.0.0.3/24"}


@pytest.mark.spec("DHCP-26")
def test_addresses_with_a_lifetime_stay_and_become_permanent_when_wanted(blue, ip):
    for cidr in ("10.0.0.2/24", "fd00::2/64", "fd00::3/64"):
        lifetimes = ("valid_lft", "600", "preferred_lft", "600")
        ip("-n", "blue", "address", "add", cidr, "dev", "e0", *lifetimes)
    wanted = addresses("e0", ["10.0.0.2/24", "fd00::2/64"])
    assert converge_addresses(blue, "e0", wanted) == ()
    permanent = {str(e.address.interface): e.permanent for e in blue.addresses("e0")}
    assert (
        permanent.items() >= {"10.0.0.2/24": True, "fd00::2/64": True, "fd00::3/64": False}.items()
    )


@pytest.mark.parametrize("promote", ["0", "1"])
def test_removing_the_first_address_of_a_network_takes_no_other_with_it(blue, promote):
    blue.apply([SetSysctl("net.ipv4.conf.e0.promote_secondaries", promote)])
    converge_addresses(blue, "e0", addresses("e0", ["10.0.0.2/24", "10.0.0.3/24", "10.0.0.4/24"]))
    converge_addresses(blue, "e0", addresses("e0", ["10.0.0.3/24", "10.0.0.4/24"]))
    assert cidrs(blue) == {"10.0.0.3/24", "10.0.0.4/24"}


def test_an_ipv6_address_changes_its_prefix_length_and_skips_duplicate_detection(blue):
    wanted = Address(device="e0", interface="fd00::2/64", nodad=True)
    converge_addresses(blue, "e0", [wanted])
    assert [e.tentative for e in blue.addresses("e0") if e.permanent and not e.automatic] == [False]
    converge_addresses(blue, "e0", [evolve(wanted, interface=ip_interface("fd00::2/128"))])
    assert cidrs(blue) == {"fd00::2/128"}


def test_an_address_without_its_route_and_with_another_scope(blue, ip):
    wanted = [
        Address(device="e0", interface="10.0.0.2/24", noprefixroute=True, scope=Scope.LINK),
        Address(device="e0", interface="fd00::2/64", noprefixroute=True, nodad=True),
    ]
    converge_addresses(blue, "e0", wanted)
    assert ip("-n", "blue", "route", "show") == []
    assert plan_addresses(wanted, blue.addresses("e0")) == ()
    converge_addresses(blue, "e0", [evolve(address, noprefixroute=False) for address in wanted])
    assert [entry["dst"] for entry in ip("-n", "blue", "route", "show")] == ["10.0.0.0/24"]
    changed = [evolve(wanted[0], scope=Scope.GLOBAL, noprefixroute=False)]
    converge_addresses(blue, "e0", changed)
    assert [e.address.scope for e in blue.addresses("e0") if not e.automatic] == [Scope.GLOBAL]


@pytest.mark.spec("DRV-46")
def test_a_namespace_without_ipv6_is_served_ipv4_only_and_says_so(blue):
    assert blue.why_no_ipv6() is None
    blue.apply([SetSysctl("net.ipv6.conf.all.disable_ipv6", "1")])
    assert "switched off" in (blue.why_no_ipv6() or "")
    assert "switched off" in (blue.why_no_ipv6("e0") or "")
    six = AddAddress(Address(device="e0", interface="fd00::2/64"))
    sixth = AddRoute(route("fd01::/64", via="fd00::1", device="e0"))
    four = AddAddress(Address(device="e0", interface="10.0.0.2/24"))
    applied = blue.apply([six, sixth, four])
    assert applied.done == (four,)
    assert list(applied.skipped) == [six, sixth]
    assert all("disable_ipv6=1" in why for why in applied.skipped.values())
    assert cidrs(blue) == {"10.0.0.2/24"}
    assert {str(r.destination) for r in blue.routes()} == {"10.0.0.0/24"}


@pytest.mark.spec("DRV-46")
def test_a_device_whose_ipv6_was_switched_on_again_gets_it(blue):
    blue.apply([SetSysctl("net.ipv6.conf.all.disable_ipv6", "1")])
    six = AddAddress(Address(device="e0", interface="fd00::2/64", nodad=True))
    on = SetSysctl("net/ipv6/conf/e0/disable_ipv6", "0")
    assert blue.apply([on, six]).skipped == {}
    assert "fd00::2/64" in cidrs(blue)


def test_many_addresses_are_listed_whole(blue):
    wanted = addresses("e0", [f"10.0.{n // 250}.{n % 250 + 1}/16" for n in range(1000)])
    converge_addresses(blue, "e0", wanted)
    assert len(blue.addresses("e0")) == 1001
    assert len(blue.addresses()) > 1001
    assert plan_addresses(wanted, blue.addresses("e0")) == ()
    assert ip_network("10.0.0.0/16") in {r.destination for r in blue.routes()}
