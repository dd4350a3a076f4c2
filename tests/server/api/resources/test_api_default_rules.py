"""Default security group rules: administrators change what new groups get."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.api.environment import Client

pytestmark = pytest.mark.spec("API-07")

RULES = "default-security-group-rules"
SSH: dict[str, Any] = {
    "direction": "ingress",
    "protocol": "tcp",
    "port_range_min": 22,
    "port_range_max": 22,
}
SHOWN = (
    "direction",
    "ethertype",
    "protocol",
    "remote_group_id",
    "used_in_default_sg",
    "used_in_non_default_sg",
)


@pytest.fixture
def admin(client: Client) -> Client:
    return client.as_("root/admin")


def rules(client: Client, **filters: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(RULES, **filters).json["default_security_group_rules"]
    return found


def refused(client: Client, **attributes: Any) -> str:
    reply = client.post(RULES, {"default_security_group_rule": attributes})
    assert reply.status in (400, 404, 409), reply.data
    return f"{reply.status} {reply.error['type']}"


def group_rules(client: Client, name: str) -> list[tuple[Any, ...]]:
    """Return the rules of the group *name*, which is created unless it is the default group."""
    if name != "default":
        client.make("security-groups", name=name)
    (group,) = client.get("security-groups", name=name).json["security_groups"]
    own = {group["id"]: "own"}
    shown = [
        (each["direction"], each["ethertype"], each["protocol"], each["port_range_min"],
         own.get(each["remote_group_id"], each["remote_group_id"]))
        for each in group["security_group_rules"]
    ]  # fmt: skip
    return sorted(shown, key=str)


OPEN = [("egress", "IPv4", None, None, None), ("egress", "IPv6", None, None, None)]
MEMBERS = [("ingress", "IPv4", None, None, "own"), ("ingress", "IPv6", None, None, "own")]
OPEN_SSH = ("ingress", "IPv4", "tcp", 22, None)


def test_a_new_database_has_the_rules_that_groups_always_had(client: Client) -> None:
    found = [tuple(each[name] for name in SHOWN) for each in rules(client)]
    assert sorted(found, key=str) == [
        ("egress", "IPv4", None, None, True, True),
        ("egress", "IPv6", None, None, True, True),
        ("ingress", "IPv4", None, "PARENT", True, False),
        ("ingress", "IPv6", None, "PARENT", True, False),
    ]
    assert group_rules(client, "default") == OPEN + MEMBERS
    assert group_rules(client, "web") == OPEN


def test_a_rule_is_created_shown_and_deleted(client: Client, admin: Client) -> None:
    made = admin.make(RULES, **SSH, description="remote login")
    assert {name: made[name] for name in SHOWN} == {
        "direction": "ingress",
        "ethertype": "IPv4",
        "protocol": "tcp",
        "remote_group_id": None,
        "used_in_default_sg": False,
        "used_in_non_default_sg": True,
    }
    assert "project_id" not in made
    own = f"{RULES}/{made['id']}"
    assert client.get(own).json == {"default_security_group_rule": made}
    assert admin.put(own, {"default_security_group_rule": {"description": "x"}}).status == 405
    assert admin.delete(own).status == 204
    missing = admin.get(own)
    assert (missing.status, missing.error["type"]) == (404, "DefaultSecurityGroupRuleNotFound")


def test_a_rule_is_found_by_what_it_shows(admin: Client) -> None:
    wanted = {**SSH, "protocol": "6", "remote_ip_prefix": "192.0.2.77/24"}
    made = admin.post(RULES, {"default_security_group_rule": wanted})
    shown = made.json["default_security_group_rule"]
    for name in ("protocol", "remote_ip_prefix"):
        assert shown[name] == wanted[name]
        assert [each["id"] for each in rules(admin, **{name: shown[name]})] == [shown["id"]], name


def test_new_groups_get_the_rules_of_their_template(client: Client, admin: Client) -> None:
    assert group_rules(client, "default") == OPEN + MEMBERS
    admin.make(RULES, **SSH)
    bob = client.as_("bob/member")
    assert group_rules(client, "web") == sorted([*OPEN, OPEN_SSH], key=str)
    assert group_rules(bob, "default") == OPEN + MEMBERS
    admin.make(RULES, **SSH, used_in_default_sg=True, used_in_non_default_sg=False)
    carol = client.as_("carol/member")
    assert group_rules(carol, "default") == sorted([*OPEN, *MEMBERS, OPEN_SSH], key=str)
    assert group_rules(client, "default") == OPEN + MEMBERS, "groups keep their rules"


def test_without_any_rule_groups_are_empty(client: Client, admin: Client) -> None:
    for each in rules(client):
        assert admin.delete(f"{RULES}/{each['id']}").status == 204
    assert group_rules(client, "default") == []
    assert group_rules(client, "web") == []


def test_only_administrators_write(client: Client) -> None:
    assert client.post(RULES, {"default_security_group_rule": SSH}).status == 403
    (first, *_) = rules(client)
    assert client.delete(f"{RULES}/{first['id']}").status == 403
    assert len(rules(client.as_("bob/reader"))) == 4


def test_the_same_rule_of_one_template_is_refused(admin: Client) -> None:
    both = {"used_in_default_sg": True, "used_in_non_default_sg": True}
    admin.make(RULES, **SSH, **both)
    for less in both:
        assert refused(admin, **SSH, **both | {less: False}) == "409 DefaultSecurityGroupRuleExists"
    nowhere = dict.fromkeys(both, False)
    admin.make(RULES, **SSH, **nowhere)
    twice = [SSH | {"port_range_max": 23}] * 2
    reply = admin.post(RULES, {"default_security_group_rules": twice})
    assert (reply.status, reply.error["type"]) == (409, "DuplicateDefaultSgRuleInPost")


def test_wrong_rules_are_refused(admin: Client) -> None:
    assert refused(admin, **SSH | {"port_range_max": 7}).startswith("400")
    assert refused(admin, **SSH, remote_ip_prefix="::/0").startswith("400")
    assert refused(admin, **SSH, remote_group_id="nothing") == "404 SecurityGroupNotFound"
    unknown = "00000000-0000-0000-0000-000000000001"
    assert refused(admin, **SSH, remote_group_id=unknown) == "404 SecurityGroupNotFound"
    assert refused(admin, **SSH, remote_address_group_id=unknown) == "404 AddressGroupNotFound"


def test_rules_name_groups_and_address_groups(client: Client, admin: Client) -> None:
    hosts = admin.make("security-groups", name="monitoring")["id"]
    office = admin.make("address-groups", addresses=["192.0.2.0/24"])["id"]
    admin.make(RULES, **SSH, remote_group_id=hosts)
    named = admin.make(RULES, **SSH, remote_address_group_id=office)
    group = client.make("security-groups", name="web")
    copied = [
        (each["remote_group_id"], each["remote_address_group_id"])
        for each in group["security_group_rules"]
        if each["direction"] == "ingress"
    ]
    assert sorted(copied, key=str) == sorted([(hosts, None), (None, office)], key=str)
    assert client.delete(f"security-groups/{group['id']}").status == 204
    in_use = admin.delete(f"address-groups/{office}")
    assert (in_use.status, in_use.error["type"]) == (409, "AddressGroupInUse")
    assert named["id"] in in_use.error["message"]
    assert admin.delete(f"security-groups/{hosts}").status == 204
    assert hosts not in [each["remote_group_id"] for each in rules(admin)]
