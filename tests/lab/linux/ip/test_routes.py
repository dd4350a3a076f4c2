"""Routes, rules and neighbours on the real kernel, compared with ``ip``."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from attrs import evolve

from netfw.errors import Conflict, NotFound
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import AddRule, AddVeth, SetUp
from netfw.linux.ip.plan import plan_neighbours, plan_routes, plan_rules
from netfw.linux.ip.values import (
    Address,
    IpRoute,
    IpRule,
    Neighbour,
    NextHop,
    RouteKind,
    RuleAction,
    route,
)
from netfw.model.values.address import Mac
from tests.lab.linux.ip.converge import converge_addresses

ROUTES = (
    route("default", via="10.0.0.1", device="e0"),
    route("default", via="fd00::1", device="e0"),
    route("10.1.0.0/16", via="10.0.0.9", metric=50),
    route("10.2.0.0/16", device="e0", source=ip_address("10.0.0.2")),
    route("10.3.0.0/16", via="192.0.2.1", device="e0", onlink=True),
    route("192.0.2.128/25", device="e0"),
    route("10.4.0.0/16", via="192.0.2.129", device="e0"),
    route("fd01::/64", device="e0", metric=7),
    route("fd02::/64", via="fd00::9"),
    route("fd03::/64", via="fe80::1", device="e0"),
    IpRoute(destination="10.5.0.0/16", kind=RouteKind.BLACKHOLE),
    IpRoute(destination="fd05::/64", kind=RouteKind.UNREACHABLE),
    IpRoute(
        destination="10.6.0.0/16",
        hops=(
            NextHop(via=ip_address("10.0.0.11"), device="e0", weight=2),
            NextHop(via=ip_address("10.0.0.12"), device="e0"),
        ),
    ),
    IpRoute(
        destination="fd06::/64",
        hops=(NextHop(via=ip_address("fd00::11")), NextHop(via=ip_address("fd00::12"))),
    ),
    route("10.7.0.0/16", via="fd00::1", device="e0"),
)


@pytest.fixture
def addressed(blue: NetlinkClient) -> NetlinkClient:
    wanted = [
        Address(device="e0", interface="10.0.0.2/24"),
        Address(device="e0", interface="fd00::2/64", nodad=True),
    ]
    converge_addresses(blue, "e0", wanted)
    return blue


def converge_routes(network: NetlinkClient, wanted, table: int = 254):
    plan = plan_routes(wanted, network.routes(table))
    network.apply(plan)
    return plan


@pytest.mark.parametrize("table", [254, 100, 100_000])
def test_routes_of_every_kind_are_added_found_and_removed(addressed, table, ip):
    wanted = [evolve(entry, table=table) for entry in ROUTES]
    if table != 254:
        converge_routes(addressed, [route("192.0.2.128/25", device="e0")])
    assert len(converge_routes(addressed, wanted, table)) == len(ROUTES)
    assert plan_routes(wanted, addressed.routes(table)) == ()
    shown = [
        entry
        for family in ("-4", "-6")
        for entry in ip(family, "-n", "blue", "route", "show", "table", str(table))
        if entry.get("protocol") == "static"
    ]
    assert len(shown) == len(ROUTES)
    converge_routes(addressed, [], table)
    assert [r for r in addressed.routes(table) if r.protocol == 4] == []


def test_routes_of_the_kernel_and_of_daemons_are_left_alone(addressed, ip):
    ip("-n", "blue", "route", "add", "10.8.0.0/16", "via", "10.0.0.8", "proto", "bird")
    before = addressed.routes()
    assert {str(r.destination) for r in before} >= {"10.0.0.0/24", "10.8.0.0/16", "fd00::/64"}
    assert converge_routes(addressed, []) == ()
    with pytest.raises(Conflict, match=r"ip route add 10\.8\.0\.0/16"):
        converge_routes(addressed, [route("10.8.0.0/16", via="10.0.0.1")])
    assert addressed.routes() == before


def test_static_routes_by_one_device_are_those_of_all_by_it(addressed):
    addressed.apply([AddVeth(name="v0", peer="v1"), SetUp("v0"), SetUp("v1")])
    wanted = [*ROUTES, route("10.9.0.0/16", device="v0"), route("fd09::/64", device="v0")]
    converge_routes(addressed, [route("192.0.2.128/25", device="e0")])
    converge_routes(addressed, wanted)
    found = addressed.static_routes()
    for device in ("e0", "v0", "v1"):
        by_it = [each for each in found if any(hop.device == device for hop in each.hops)]
        assert list(addressed.static_routes(device)) == by_it
    assert len(addressed.static_routes("v0")) == 2
    with pytest.raises(NotFound):
        addressed.static_routes("v2")


def test_a_gateway_changes_in_one_step(addressed):
    converge_routes(addressed, [route("default", via="10.0.0.1"), route("::/0", via="fd00::1")])
    wanted = [route("default", via="10.0.0.254"), route("::/0", via="fd00::fe")]
    assert [op.text for op in converge_routes(addressed, wanted)] == [
        "ip route replace 0.0.0.0/0 via 10.0.0.254 table 254",
        "ip route replace ::/0 via fd00::fe metric 1024 table 254",
    ]
    assert {
        str(hop.via) for r in addressed.routes() if not r.destination.prefixlen for hop in r.hops
    } == {"10.0.0.254", "fd00::fe"}


RULES = (
    IpRule(priority=100, source="10.9.0.0/16", table=100),
    IpRule(priority=101, source="fd09::/64", destination="fd0a::/64", table=100_000),
    IpRule(priority=102, iif="e0", mark=0x10, mask=0xFF, table=7),
    IpRule(priority=103, version=6, oif="e0", table=7),
    IpRule(priority=104, destination="192.0.2.1", action=RuleAction.UNREACHABLE, table=0),
)


def test_rules_are_added_found_and_removed_and_others_stay(blue, ip):
    daemon = ("ipproto", "tcp", "lookup", "9", "protocol", "bird")
    ip("-n", "blue", "rule", "add", "priority", "50", *daemon)
    before = blue.rules()
    assert {rule.priority for rule in before} == {0, 50, 32766, 32767}
    blue.apply(plan_rules(RULES, before))
    assert plan_rules(RULES, blue.rules()) == ()
    rules = {rule["priority"]: rule for rule in ip("-4", "-n", "blue", "rule", "show")}
    assert (rules[100]["src"], rules[100]["srclen"], rules[100]["table"]) == ("10.9.0.0", 16, "100")
    assert (rules[102]["fwmark"], rules[102]["fwmask"], rules[102]["iif"]) == ("0x10", "0xff", "e0")
    with pytest.raises(Conflict, match="ip -4 rule add priority 100"):
        blue.apply([AddRule(RULES[0])])
    blue.apply(plan_rules([], blue.rules()))
    assert blue.rules() == before


@pytest.mark.parametrize(
    ("family", "address"), [("-4", "10.99.0.1/24"), ("-6", "fd99::1/64")], ids=["IPv4", "IPv6"]
)
def test_rules_that_match_one_address_of_a_network_are_removed(blue, ip, family, address):
    # The kernel stores the whole address, which a network cannot express.
    ip(family, "-n", "blue", "rule", "add", "from", address, "table", "99", "protocol", "static")
    (found,) = (rule for rule in blue.rules() if rule.table == 99)
    assert found.other == {"host bits"}
    blue.apply(plan_rules([], blue.rules()))
    assert found not in blue.rules()


def test_neighbours_are_set_changed_and_removed(blue, ip):
    wanted = [
        Neighbour(device="e0", address="10.0.0.5", mac=Mac("fa:16:3e:00:00:05")),
        Neighbour(device="e0", address="fd00::5", mac=Mac("fa:16:3e:00:00:05")),
        Neighbour(device="e0", address="10.0.0.6", proxy=True),
        Neighbour(device="e0", address="fd00::6", proxy=True),
    ]
    blue.apply(plan_neighbours(wanted, blue.neighbours()))
    assert plan_neighbours(wanted, blue.neighbours()) == ()
    neighbours = ip("-n", "blue", "neighbour", "show", "nud", "permanent")
    assert {(e["dst"], e["lladdr"]) for e in neighbours} == {
        ("10.0.0.5", "fa:16:3e:00:00:05"),
        ("fd00::5", "fa:16:3e:00:00:05"),
    }
    changed = [evolve(wanted[0], mac=Mac("fa:16:3e:00:00:55")), wanted[2]]
    blue.apply(plan_neighbours(changed, blue.neighbours()))
    assert set(blue.neighbours()) == set(changed)
    blue.apply(plan_neighbours([], blue.neighbours()))
    assert blue.neighbours() == ()
