"""Subnets: what is worked out, what is refused, and what happens to ports."""

from __future__ import annotations

import ipaddress
from typing import Any
from uuid import uuid4

import pytest

from netfw.drivers.server.query import Query
from netfw.errors import Conflict, Exhausted, InvalidInput, NotFound
from netfw.errors.networks import OverlappingAllocationPools
from netfw.server.db import Database
from netfw.server.l2.subnet_validation import default_allocation_pools, default_gateway
from tests.server.core.core_client import ADMIN, ALICE, BOB, Calls, core_plugin, statements

pytestmark = pytest.mark.real
SLAAC = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}


def pools(subnet: dict[str, Any]) -> list[tuple[str, str]]:
    return [(pool["start"], pool["end"]) for pool in subnet["allocation_pools"]]


@pytest.mark.spec("ML2-17")
@pytest.mark.spec("API-06")
@pytest.mark.parametrize(
    ("cidr", "gateway", "expected"),
    [
        ("10.0.0.0/24", "10.0.0.1", [("10.0.0.2", "10.0.0.254")]),
        ("10.0.0.0/30", "10.0.0.1", [("10.0.0.2", "10.0.0.2")]),
        ("fd00::/64", "fd00::", [("fd00::1", "fd00::ffff:ffff:ffff:ffff")]),
    ],
)
def test_the_first_address_is_the_gateway_and_the_rest_is_the_pool(
    calls: Calls, cidr: str, gateway: str, expected: list[tuple[str, str]]
) -> None:
    made = calls.subnet(calls.network(), cidr)
    assert made["gateway_ip"] == gateway
    assert pools(made) == expected
    assert made["ip_version"] == ipaddress.ip_network(cidr).version
    assert made["enable_dhcp"]
    assert (made["dns_nameservers"], made["host_routes"]) == ([], [])
    assert calls.show("subnet", made["id"]) == made


def test_what_is_left_for_hosts_beside_any_gateway() -> None:
    for block, gateway, expected in (
        ("10.0.0.0/29", "10.0.0.3", [("10.0.0.1", "10.0.0.2"), ("10.0.0.4", "10.0.0.6")]),
        ("10.0.0.0/29", "10.0.0.6", [("10.0.0.1", "10.0.0.5")]),
        ("10.0.0.0/29", "10.0.1.1", [("10.0.0.1", "10.0.0.6")]),
        ("10.0.0.0/29", None, [("10.0.0.1", "10.0.0.6")]),
        ("10.0.0.0/31", "10.0.0.0", [("10.0.0.1", "10.0.0.1")]),
        ("10.0.0.4/32", None, [("10.0.0.4", "10.0.0.4")]),
        ("fd00::/126", "fd00::", [("fd00::1", "fd00::3")]),
    ):
        network = ipaddress.ip_network(block)
        address = None if gateway is None else ipaddress.ip_address(gateway)
        found = [
            (str(pool.start), str(pool.end)) for pool in default_allocation_pools(network, address)
        ]
        assert found == expected, block
    assert default_gateway(ipaddress.ip_network("10.0.0.4/32")) is None
    assert str(default_gateway(ipaddress.ip_network("10.0.0.4/31"))) == "10.0.0.4"


@pytest.mark.spec("ML2-17")
@pytest.mark.spec("API-06")
def test_requested_attributes_are_stored(calls: Calls) -> None:
    network = calls.network()
    given: dict[str, Any] = {
        "gateway_ip": "10.0.0.9",
        "allocation_pools": [
            {"start": "10.0.0.100", "end": "10.0.0.110"},
            {"start": "10.0.0.20", "end": "10.0.0.29"},
        ],
        "dns_nameservers": ["192.0.2.2", "192.0.2.1"],
        "host_routes": [{"destination": "192.0.2.0/24", "nexthop": "10.0.0.7"}],
        "enable_dhcp": False,
        "service_types": ["compute:nova"],
        "name": "s",
    }
    made = calls.subnet(network, "10.0.0.77/24", **given)
    assert made["cidr"] == "10.0.0.0/24", "bits of hosts are cleared"
    assert {name: made[name] for name in given} == given
    without = calls.subnet(network, "10.0.1.0/24", gateway_ip=None)
    assert without["gateway_ip"] is None
    assert pools(without) == [("10.0.1.1", "10.0.1.254")]
    assert calls.subnet(network, "10.0.2.0/24", gateway_ip="10.9.9.9")["gateway_ip"] == "10.9.9.9"


IMPOSSIBLE: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("10.0.0.0/24", {"gateway_ip": "10.0.0.255"}, "gateway_ip"),
    (
        "10.0.0.0/24",
        {"allocation_pools": [{"start": "10.0.0.0", "end": "10.1.0.9"}]},
        "allocation_pools[0]",
    ),
    ("10.0.0.0/24", {"gateway_ip": "fd00::1"}, "gateway_ip"),
    ("10.0.0.0/24", {"gateway_ip": "10.0.0.255"}, "gateway_ip"),
    ("10.0.0.0/24", {"gateway_ip": "127.0.0.1"}, "gateway_ip"),
    ("fd00::/64", {"ip_version": 6, "gateway_ip": "::1"}, "gateway_ip"),
    ("fd00::/64", {"ip_version": 6, "gateway_ip": "::"}, "gateway_ip"),
    ("fd00::/64", {"ip_version": 6, "gateway_ip": "ff02::1"}, "gateway_ip"),
    ("10.0.0.0/24", {"ip_version": 6}, "ip_version"),
    ("10.0.0.0/24", {"ipv6_ra_mode": "slaac"}, "ipv6_ra_mode"),
    ("10.0.0.0/24", {"dns_nameservers": ["fd00::1"]}, "dns_nameservers[0]"),
    ("10.0.0.0/24", {"dns_nameservers": [f"192.0.2.{n}" for n in range(6)]}, "dns_nameservers"),
    ("10.0.0.0/24", {"service_types": ["nonsense"]}, "service_types[0]"),
    ("10.0.0.0/24", {"segment_id": str(uuid4())}, "segment_id"),
    ("10.0.0.0/24", {"subnetpool_id": str(uuid4())}, "subnetpool_id"),
    ("10.0.0.0/24", {"prefixlen": 26}, "prefixlen"),
    ("10.0.0.0/31", {}, "enable_dhcp"),
    ("0.0.0.0/0", {}, "cidr"),
    ("224.0.0.0/24", {}, "cidr"),
    ("127.0.0.0/24", {}, "cidr"),
    ("::ffff:10.0.0.0/120", {"ip_version": 6}, "cidr"),
    ("nonsense", {}, "cidr"),
    ("", {}, "cidr"),
    ("fd00::/63", SLAAC, "ipv6_ra_mode"),
    ("fd00::/64", {**SLAAC, "enable_dhcp": False}, "ipv6_ra_mode"),
    ("fd00::/64", {**SLAAC, "ipv6_ra_mode": "dhcpv6-stateful"}, "ipv6_address_mode"),
    (
        "10.0.0.0/24",
        {"allocation_pools": [{"start": "10.0.0.20", "end": "10.0.0.10"}]},
        "allocation_pools[0].end",
    ),
    (
        "10.0.0.0/24",
        {"allocation_pools": [{"start": "10.0.1.20", "end": "10.0.1.30"}]},
        "allocation_pools[0]",
    ),
)


@pytest.mark.spec("ML2-09")
def test_a_subnet_that_cannot_be_is_refused_by_attribute(calls: Calls) -> None:
    network = calls.network()
    for cidr, given, path in IMPOSSIBLE:
        with pytest.raises(InvalidInput) as refused:
            calls.subnet(network, cidr, **given)
        assert path in refused.value.problems, (cidr, given, refused.value.problems)
    first = {"start": "10.0.0.20", "end": "10.0.0.30"}
    second = {"start": "10.0.0.30", "end": "10.0.0.40"}
    with pytest.raises(OverlappingAllocationPools, match=r"10\.0\.0\.20 to 10\.0\.0\.30"):
        calls.subnet(network, "10.0.0.0/24", allocation_pools=[second, first])
    assert calls.all("subnet") == []


@pytest.mark.spec("ML2-09")
def test_a_gateway_is_in_no_pool(calls: Calls) -> None:
    network = calls.network()
    whole = [{"start": "10.0.0.1", "end": "10.0.0.9"}]
    with pytest.raises(Conflict, match=r"gateway 10\.0\.0\.1"):
        calls.subnet(network, "10.0.0.0/24", allocation_pools=whole)
    made = calls.subnet(network, "10.0.0.0/24")
    with pytest.raises(Conflict, match=r"gateway 10\.0\.0\.50"):
        calls.change("subnet", made["id"], gateway_ip="10.0.0.50")
    both = calls.change(
        "subnet",
        made["id"],
        gateway_ip="10.0.0.50",
        allocation_pools=[{"start": "10.0.0.51", "end": "10.0.0.60"}],
    )
    assert (both["gateway_ip"], pools(both)) == ("10.0.0.50", [("10.0.0.51", "10.0.0.60")])


@pytest.mark.spec("ML2-09")
def test_subnets_of_one_network_do_not_overlap_and_those_of_others_may(calls: Calls) -> None:
    network, other = calls.network(), calls.network()
    first = calls.subnet(network, "10.0.0.0/24")
    with pytest.raises(InvalidInput, match=first["id"]):
        calls.subnet(network, "10.0.0.128/25")
    calls.subnet(network, "fd00::/64")
    calls.subnet(other, "10.0.0.0/16")
    same = {"project_id": "alice", "network_id": network["id"], "cidr": "10.1.0.0/24"}
    with pytest.raises(InvalidInput, match="overlaps"):
        calls.plugin.create(ALICE, "subnet", [same, same])
    assert len(calls.show("network", network["id"])["subnets"]) == 2


@pytest.mark.spec("API-06")
def test_a_subnet_is_for_a_network_that_one_sees(calls: Calls) -> None:
    network = calls.network()
    for id in (network["id"], str(uuid4()), "no uuid"):
        with pytest.raises(NotFound):
            calls.make("subnet", BOB, network_id=id, cidr="10.0.0.0/24")
    made = calls.subnet(network, "10.0.0.0/24")
    with pytest.raises(NotFound):
        calls.show("subnet", made["id"], BOB)
    calls.change("network", network["id"], ADMIN, shared=True)
    assert calls.show("subnet", made["id"], BOB)["id"] == made["id"]


@pytest.mark.spec("ML2-09")
def test_pools_that_change_offer_what_they_say_and_keep_what_is_taken(calls: Calls) -> None:
    network = calls.network()
    few = [{"start": "10.0.0.2", "end": "10.0.0.2"}]
    subnet = calls.subnet(network, "10.0.0.0/24", allocation_pools=few)
    port = calls.make("port", network_id=network["id"])
    with pytest.raises(Conflict, match="no address is left"):
        calls.make("port", network_id=network["id"])
    more = [{"start": "10.0.0.2", "end": "10.0.0.5"}]
    calls.change("subnet", subnet["id"], allocation_pools=more)
    assert calls.make("port", network_id=network["id"])["fixed_ips"][0]["ip_address"] == "10.0.0.3"
    few = [{"start": "10.0.0.10", "end": "10.0.0.10"}]
    calls.change("subnet", subnet["id"], allocation_pools=few)
    other = calls.make("port", network_id=network["id"])
    assert other["fixed_ips"][0]["ip_address"] == "10.0.0.10"
    assert calls.show("port", port["id"])["fixed_ips"][0]["ip_address"] == "10.0.0.2"
    named = [{"subnet_id": subnet["id"], "ip_address": "10.0.0.2"}]
    with pytest.raises(Conflict):
        calls.make("port", network_id=network["id"], fixed_ips=named)


def test_a_change_is_what_it_names(calls: Calls) -> None:
    made = calls.subnet(calls.network(), "10.0.0.0/24", dns_nameservers=["192.0.2.1"])
    after = calls.change("subnet", made["id"], name="new", dns_nameservers=[])
    different = {name for name in after if after[name] != made[name]}
    assert different <= {"name", "dns_nameservers", "revision_number", "updated_at"}
    assert after["revision_number"] == 2
    assert calls.change("subnet", made["id"], name="new")["revision_number"] == 2
    with pytest.raises(InvalidInput, match="cidr"):
        calls.change("subnet", made["id"], cidr="10.0.0.0/23")


@pytest.mark.spec("API-06")
def test_a_gateway_that_a_router_has_does_not_change(calls: Calls) -> None:
    network = calls.network()
    subnet = calls.subnet(network, "10.0.0.0/24")
    router = calls.make(
        "port",
        ADMIN,
        network_id=network["id"],
        device_owner="network:router_interface",
        device_id="r",
        fixed_ips=[{"subnet_id": subnet["id"], "ip_address": "10.0.0.1"}],
    )
    for gateway in ("10.0.0.0", None, "10.0.0.254"):
        with pytest.raises((Conflict, InvalidInput)):
            calls.change("subnet", subnet["id"], gateway_ip=gateway)
    with pytest.raises(Conflict, match="in use"):
        calls.delete("subnet", subnet["id"])
    calls.delete("port", router["id"])
    assert calls.change("subnet", subnet["id"], gateway_ip=None)["gateway_ip"] is None


@pytest.mark.spec("API-06")
def test_a_subnet_in_use_stays_and_ports_of_the_server_make_way(
    calls: Calls, database: Database
) -> None:
    network = calls.network()
    subnet, other = calls.subnet(network, "10.0.0.0/24"), calls.subnet(network, "10.0.1.0/24")
    port = calls.make("port", network_id=network["id"], fixed_ips=[{"subnet_id": subnet["id"]}])
    both = [{"subnet_id": subnet["id"]}, {"subnet_id": other["id"]}]
    served = calls.make(
        "port", network_id=network["id"], device_owner="network:dhcp", fixed_ips=both
    )
    with pytest.raises(Conflict, match="belong to 1 port; delete"):
        calls.delete("subnet", subnet["id"])
    calls.delete("port", port["id"])
    calls.delete("subnet", subnet["id"])
    left = calls.show("port", served["id"])["fixed_ips"]
    assert [each["subnet_id"] for each in left] == [other["id"]]
    calls.delete("subnet", other["id"])
    with pytest.raises(NotFound):
        calls.show("port", served["id"])
    assert database.transaction(lambda tx: tx.addresses._ranges.pools("subnet/")) == ()
    assert calls.subnet(network, "10.0.0.0/24")


@pytest.mark.spec("API-06")
def test_ports_of_the_server_make_way_for_the_owner_of_a_subnet_alone(calls: Calls) -> None:
    network = calls.network()
    subnet = calls.subnet(network, "10.0.0.0/24", ADMIN, project_id=BOB.project_id)
    calls.make("port", network_id=network["id"], device_owner="network:dhcp")
    calls.delete("subnet", subnet["id"], BOB)
    assert calls.all("subnet") == calls.all("port") == []


@pytest.mark.spec("ML2-09")
@pytest.mark.spec("API-06")
def test_hosts_derive_addresses_when_such_a_subnet_comes_and_lose_them_when_it_goes(
    calls: Calls,
) -> None:
    network = calls.network()
    calls.subnet(network, "10.0.0.0/24")
    port = calls.make("port", network_id=network["id"], mac_address="fa:16:3e:00:00:01")
    interface = {"device_owner": "network:router_interface", "device_id": "r"}
    router = calls.make("port", ADMIN, network_id=network["id"], **interface)
    six = calls.subnet(network, "fd00::/64", **SLAAC)
    addresses = [each["ip_address"] for each in calls.show("port", port["id"])["fixed_ips"]]
    assert sorted(addresses) == ["10.0.0.2", "fd00::f816:3eff:fe00:1"]
    assert calls.show("port", port["id"])["revision_number"] == 2
    assert len(calls.show("port", router["id"])["fixed_ips"]) == 1
    own = [{"subnet_id": six["id"], "ip_address": "fd00::"}]
    calls.change("port", router["id"], fixed_ips=own)
    with pytest.raises(Conflict, match="1 port;"):
        calls.delete("subnet", six["id"])
    calls.delete("port", router["id"])
    calls.delete("subnet", six["id"])
    assert len(calls.show("port", port["id"])["fixed_ips"]) == 1


@pytest.mark.spec("API-08")
def test_a_network_has_another_revision_with_its_subnets(calls: Calls) -> None:
    network = calls.network()
    body = {"project_id": "alice", "network_id": network["id"]}
    two = [{**body, "cidr": "10.0.0.0/24"}, {**body, "cidr": "10.0.1.0/24"}]
    first, second = calls.plugin.create(ALICE, "subnet", two)
    after = calls.show("network", network["id"])
    assert after["revision_number"] == 2
    assert after["subnets"] == sorted([first["id"], second["id"]])
    calls.change("subnet", str(first["id"]), name="x")
    assert calls.show("network", network["id"])["revision_number"] == 2
    calls.delete("subnet", str(first["id"]))
    after = calls.show("network", network["id"])
    assert (after["revision_number"], after["subnets"]) == (3, [second["id"]])


def test_quotas_of_subnets_count(database: Database) -> None:
    calls = Calls(core_plugin(database, quotas={"subnet": 1}))
    network = calls.network()
    subnet = calls.subnet(network, "10.0.0.0/24")
    with pytest.raises(Exhausted, match="quota"):
        calls.subnet(network, "10.0.1.0/24")
    calls.delete("subnet", subnet["id"])
    calls.subnet(network, "10.0.1.0/24")


def test_verbs_on_subnets_take_few_statements(calls: Calls, database: Database) -> None:
    network = calls.network()
    calls.subnet(network, "10.0.0.0/24")
    with statements(database) as seen:
        subnet = calls.subnet(network, "10.0.1.0/24")
    assert len(seen) <= 15
    with statements(database) as seen:
        calls.change("subnet", subnet["id"], name="x")
    assert len(seen) <= 9
    with statements(database) as seen:
        calls.delete("subnet", subnet["id"])
    assert len(seen) <= 16
    with statements(database) as seen:
        calls.plugin.find(ALICE, "subnet", Query())
    for number in range(2, 12):
        calls.subnet(network, f"10.0.{number}.0/24")
    with statements(database) as later:
        calls.plugin.find(ALICE, "subnet", Query())
    assert len(later) == len(seen) <= 2
