"""Rules of security groups, on a real database."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import event

from netfw.drivers.server.query import Query
from netfw.errors import Conflict, Exhausted, Forbidden, InvalidInput, NotFound
from netfw.server.core.server_context import ServerContext
from netfw.server.security_groups.groups import SecurityGroupsPlugin
from tests.server.security_groups.client import ADMIN, ANNA, BERT, group, rule, rule_body, used

pytestmark = pytest.mark.spec("API-06")

NO_PORTS: dict[str, Any] = {"port_range_min": None, "port_range_max": None}


@pytest.fixture
def plugin(context: ServerContext) -> SecurityGroupsPlugin:
    return SecurityGroupsPlugin(context)


def test_rules_are_shown_as_they_were_requested(plugin: SecurityGroupsPlugin) -> None:
    id = group(plugin)["id"]
    numbered = rule(plugin, id, protocol="17", remote_ip_prefix="192.0.2.77/24")
    assert (numbered["protocol"], numbered["remote_ip_prefix"]) == ("17", "192.0.2.77/24")
    assert numbered["normalized_cidr"] == "192.0.2.0/24"
    body = plugin.show(ANNA, "security_group_rule", numbered["id"])
    assert body == numbered
    in_group = plugin.show(ANNA, "security_group", id)["security_group_rules"]
    assert isinstance(in_group, list)
    assert numbered in in_group
    assert rule(plugin, id, protocol="icmpv6", ethertype="IPv6", **NO_PORTS)["protocol"] == (
        "ipv6-icmp"
    )
    plain = rule(plugin, id)
    assert (plain["protocol"], plain["normalized_cidr"]) == ("tcp", None)


def test_rules_are_found_by_protocols_in_any_words(plugin: SecurityGroupsPlugin) -> None:
    id = group(plugin)["id"]
    made = {rule(plugin, id, protocol=protocol)["id"] for protocol in ("tcp", "17", "udplite")}

    def found(*protocols: str) -> set[object]:
        filters = {"protocol": protocols, "direction": ("ingress",)}
        return {
            each["id"] for each in plugin.find(ANNA, "security_group_rule", Query(filters=filters))
        }

    assert found("6", "udp", "136") == found("TCP", "17", "udplite") == made
    assert found("nonsense") == set()
    any_protocol = Query(filters={"protocol": ("any",), "security_group_id": (id,)})
    assert len(plugin.find(ANNA, "security_group_rule", any_protocol)) == 2


@pytest.mark.parametrize("written", ["192.0.2.77/24", "2001:DB8::1/64"])
def test_rules_are_found_by_their_prefix_as_written_and_as_meant(
    plugin: SecurityGroupsPlugin, written: str
) -> None:
    id = group(plugin)["id"]
    ethertype = "IPv6" if ":" in written else "IPv4"
    made = rule(plugin, id, remote_ip_prefix=written, ethertype=ethertype)
    for prefix in (written, made["normalized_cidr"]):
        query = Query(filters={"remote_ip_prefix": (prefix,)})
        found = [each["id"] for each in plugin.find(ANNA, "security_group_rule", query)]
        assert found == [made["id"]], prefix
    for other in ("nonsense", "198.51.100.0/24"):
        query = Query(filters={"remote_ip_prefix": (other,)})
        assert plugin.find(ANNA, "security_group_rule", query) == ()


def test_a_list_of_rules_has_those_of_the_default_group(plugin: SecurityGroupsPlugin) -> None:
    assert len(plugin.find(ANNA, "security_group_rule", Query())) == 4


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"protocol": "carrier-pigeon"}, "protocol"),
        ({"protocol": 256}, "protocol"),
        ({"port_range_min": 80, "port_range_max": 22}, "port_range_max"),
        ({"port_range_min": 0}, "port_range_min"),
        ({"port_range_max": 65536}, "port_range_max"),
        ({"port_range_max": None}, "port_range_max"),
        ({"protocol": None}, "port_range_min"),
        ({"protocol": "vrrp"}, "port_range_min"),
        ({"protocol": "icmp", "port_range_min": 256}, "port_range_min"),
        ({"protocol": "icmp", "port_range_min": None}, "port_range_max"),
        ({"protocol": "ipv6-icmp", **NO_PORTS}, "protocol"),
        ({"protocol": "44", **NO_PORTS}, "protocol"),
        ({"remote_ip_prefix": "2001:db8::/64"}, "remote_ip_prefix"),
        ({"remote_ip_prefix": "300.0.0.0/8"}, "remote_ip_prefix"),
        ({"direction": "sideways"}, "direction"),
        ({"ethertype": "IPX"}, "ethertype"),
    ],
)
def test_contradictions_are_named(
    plugin: SecurityGroupsPlugin, options: dict[str, Any], path: str
) -> None:
    id = group(plugin)["id"]
    with pytest.raises(InvalidInput) as caught:
        rule(plugin, id, **options)
    assert path in caught.value.problems


@pytest.mark.parametrize(
    ("protocol", "low", "high", "words"),
    [
        ("tcp", -16, 80, "Invalid value for port -16"),
        ("tcp", 80, 79, "port_range_min must be <= port_range_max"),
        ("udp", 80, 65536, "Invalid value for port 65536"),
        ("tcp", None, 6, "port_range_min must be <= port_range_max"),
        ("icmp", 1, 256, "Invalid value for ICMP code"),
        ("icmp", -1, 25, "Invalid value"),
        ("icmp", None, 6, "ICMP type (port-range-min) is missing"),
        ("icmp", 300, 1, "Invalid value for ICMP type"),
    ],
)
def test_wrong_ranges_are_refused_in_words_that_clients_match(
    plugin: SecurityGroupsPlugin, protocol: str, low: int | None, high: int, words: str
) -> None:
    id = group(plugin)["id"]
    with pytest.raises(InvalidInput, match=re.escape(words)):
        rule(plugin, id, protocol=protocol, port_range_min=low, port_range_max=high)
    with pytest.raises(InvalidInput, match="Conflicting value ethertype"):
        rule(plugin, id, remote_ip_prefix="2001:db8::/64")


def test_a_rule_has_one_remote_at_most(plugin: SecurityGroupsPlugin) -> None:
    id = group(plugin)["id"]
    with pytest.raises(InvalidInput, match="one kind of remote"):
        rule(plugin, id, remote_ip_prefix="192.0.2.0/24", remote_group_id=id)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {}),
        ({}, {"protocol": "6"}),
        ({}, {"remote_ip_prefix": "0.0.0.0/0"}),
        ({"remote_ip_prefix": "192.0.2.0/24"}, {"remote_ip_prefix": "192.0.2.9/24"}),
        ({**NO_PORTS}, {"port_range_min": 1, "port_range_max": 65535}),
        ({"port_range_min": 1, "port_range_max": 65535}, {**NO_PORTS}),
        (
            {"protocol": "icmp", "ethertype": "IPv6", **NO_PORTS},
            {"protocol": "ipv6-icmp", "ethertype": "IPv6", **NO_PORTS},
        ),
        (
            {"protocol": "any", "direction": "egress", **NO_PORTS},
            {"protocol": None, "direction": "egress", **NO_PORTS},
        ),
    ],
)
def test_the_same_rule_in_other_words_is_refused(
    plugin: SecurityGroupsPlugin, first: dict[str, Any], second: dict[str, Any]
) -> None:
    id = group(plugin)["id"]
    if first.get("direction") == "egress":  # every group begins with this one
        (made,) = [
            each for each in group(plugin)["security_group_rules"] if each["ethertype"] == "IPv4"
        ]
        id = made["security_group_id"]
    else:
        made = rule(plugin, id, **first)
    with pytest.raises(Conflict, match=made["id"]):
        rule(plugin, id, **second)


@pytest.mark.parametrize(
    "other",
    [
        {"direction": "egress"},
        {"protocol": "udp"},
        {"ethertype": "IPv6"},
        {"port_range_max": 23},
        {"remote_ip_prefix": "192.0.2.0/24"},
        {"protocol": None, **NO_PORTS},
    ],
)
def test_rules_that_differ_stand_beside_each_other(
    plugin: SecurityGroupsPlugin, other: dict[str, Any]
) -> None:
    id = group(plugin)["id"]
    rule(plugin, id)
    rule(plugin, id, **other)
    with pytest.raises(Conflict):
        rule(plugin, id, **other)
    rule(plugin, group(plugin)["id"], **other)


def test_several_rules_are_made_together_or_not_at_all(
    context: ServerContext, plugin: SecurityGroupsPlugin
) -> None:
    one, two = group(plugin)["id"], group(plugin)["id"]

    def make(*bodies: dict[str, Any]) -> None:
        plugin.create(ANNA, "security_group_rule", bodies)

    ports = [rule_body(one, port_range_min=port, port_range_max=port) for port in range(1000, 1100)]
    with pytest.raises(Conflict, match="twice"):
        make(*ports, ports[40])
    with pytest.raises(NotFound):
        make(*ports, rule_body(str(uuid4())))
    with pytest.raises(InvalidInput):
        make(*ports, rule_body(two, ethertype="IPv6", remote_ip_prefix="192.0.2.0/24"))
    assert used(context, "anna", "security_group_rule") == 4
    make(*ports, rule_body(two))
    assert used(context, "anna", "security_group_rule") == 105
    assert [plugin.show(ANNA, "security_group", id)["revision_number"] for id in (one, two)] == [
        2,
        2,
    ]
    with pytest.raises(Conflict, match="has this rule"):
        make(rule_body(two, protocol="udp"), ports[7])


def test_a_further_rule_costs_the_same_in_a_large_group(
    context: ServerContext, plugin: SecurityGroupsPlugin
) -> None:
    id = group(plugin)["id"]
    statements: list[str] = []
    event.listen(
        context.database.writing,
        "before_cursor_execute",
        lambda *arguments: statements.append(arguments[2]),
    )
    bodies = [rule_body(id, port_range_min=n, port_range_max=n) for n in range(2000, 2300)]
    plugin.create(ANNA, "security_group_rule", bodies[:1])
    few = len(statements)
    plugin.create(ANNA, "security_group_rule", bodies[1:-1])
    statements.clear()
    plugin.create(ANNA, "security_group_rule", bodies[-1:])
    assert len(statements) <= few


def test_groups_of_others_can_be_neither_filled_nor_named(plugin: SecurityGroupsPlugin) -> None:
    hers, his = group(plugin)["id"], group(plugin, BERT)["id"]
    with pytest.raises(NotFound):
        rule(plugin, hers, BERT)
    with pytest.raises(NotFound, match=hers):
        rule(plugin, his, BERT, remote_group_id=hers)
    with pytest.raises(NotFound):
        rule(plugin, his, BERT, remote_group_id=str(uuid4()))
    with pytest.raises(NotFound):
        rule(plugin, his, BERT, remote_group_id="no-such-group")
    with pytest.raises(NotFound, match="address_group"):
        rule(plugin, his, BERT, remote_address_group_id=str(uuid4()))
    made = rule(plugin, hers, ADMIN)
    assert plugin.show(ANNA, "security_group_rule", made["id"]) == made
    with pytest.raises(NotFound):
        plugin.delete(BERT, "security_group_rule", made["id"])


def test_a_group_that_is_shared_can_be_named_but_not_filled(plugin: SecurityGroupsPlugin) -> None:
    hers, his = group(plugin, shared=True)["id"], group(plugin, BERT)["id"]
    rule(plugin, his, BERT, remote_group_id=hers)
    with pytest.raises(Forbidden, match="owner"):
        rule(plugin, hers, BERT)


def test_rules_are_counted_for_their_project(
    context: ServerContext, plugin: SecurityGroupsPlugin
) -> None:
    context.quotas = {"security_group_rule": 3}
    id = group(plugin)["id"]
    made = rule(plugin, id)
    with pytest.raises(Exhausted, match="security_group_rule"):
        rule(plugin, id, protocol="udp")
    plugin.delete(ANNA, "security_group_rule", made["id"])
    rule(plugin, id, protocol="udp")


def test_only_the_description_of_a_rule_changes(plugin: SecurityGroupsPlugin) -> None:
    made = rule(plugin, group(plugin)["id"])
    after = plugin.update(ANNA, "security_group_rule", made["id"], {"description": "ssh"})
    assert after["description"] == "ssh"
    with pytest.raises(InvalidInput, match="make another"):
        plugin.update(ANNA, "security_group_rule", made["id"], {"port_range_max": 23})
