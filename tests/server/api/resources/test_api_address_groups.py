"""Address groups, and rules that name them, as clients use them."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from sqlalchemy import event

from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.settings import Settings
from netfw.server.core.unit_of_work import UnitOfWork
from tests.server.api.environment import Client
from tests.server.security_groups.client import ADMIN

pytestmark = pytest.mark.spec("API-07")

PREFIXES = ["10.10.10.3/32", "192.168.0.10/24", "2001:db8::f00/64"]
NORMALISED = ["10.10.10.3/32", "192.168.0.0/24", "2001:db8::/64"]


def rule_of(client: Client, address_group: str, **attributes: Any) -> dict[str, Any]:
    group = client.make("security-groups", name="web")["id"]
    return client.make(
        "security-group-rules",
        security_group_id=group,
        direction="ingress",
        remote_address_group_id=address_group,
        **attributes,
    )


def test_the_life_of_an_address_group(client: Client) -> None:
    made = client.make("address-groups", name="office", addresses=PREFIXES)
    assert made["addresses"] == NORMALISED
    assert (made["shared"], made["revision_number"], made["tags"]) == (False, 1, [])
    own = f"address-groups/{made['id']}"
    assert client.get(own).json == {"address_group": made}
    changed = client.put(own, {"address_group": {"description": "both floors"}})
    assert changed.json["address_group"]["addresses"] == NORMALISED
    assert changed.json["address_group"]["revision_number"] == 2
    listed = client.get("address-groups", name="office").json["address_groups"]
    assert [each["id"] for each in listed] == [made["id"]]
    assert client.delete(own).status == 204
    missing = client.get(own)
    assert (missing.status, missing.error["type"]) == (404, "AddressGroupNotFound")


def test_addresses_are_added_and_removed_by_actions(client: Client) -> None:
    made = client.make("address-groups", addresses=PREFIXES)
    own = f"address-groups/{made['id']}"
    added = client.put(f"{own}/add_addresses", {"addresses": ["10.20.30.40", "10.1.0.0/16"]})
    assert added.status == 200
    shown = added.json["address_group"]
    assert shown["addresses"] == sorted([*NORMALISED, "10.20.30.40/32", "10.1.0.0/16"])
    assert shown["revision_number"] == 2
    removed = client.put(f"{own}/remove_addresses", {"addresses": [NORMALISED[0], "10.1.9.9/16"]})
    assert removed.json["address_group"]["addresses"] == sorted([*NORMALISED[1:], "10.20.30.40/32"])
    assert client.get(own).json == removed.json


def test_wrong_addresses_change_nothing(client: Client) -> None:
    made = client.make("address-groups", addresses=PREFIXES)
    own = f"address-groups/{made['id']}"
    for address in ("10.20.30.40", "no address"):
        refused = client.post("address-groups", {"address_group": {"addresses": [address]}})
        assert refused.status == 400
    for action in ("add_addresses", "remove_addresses"):
        assert client.put(f"{own}/{action}", {"addresses": ["no address"]}).status == 400
        assert client.put(f"{own}/{action}", {}).status == 400
    again = client.put(f"{own}/add_addresses", {"addresses": ["9.9.9.9/32", "192.168.0.0/24"]})
    assert (again.status, again.error["type"]) == (400, "AddressesAlreadyExist")
    assert "192.168.0.0/24" in again.error["message"]
    missing = client.put(f"{own}/remove_addresses", {"addresses": ["10.200.200.200"]})
    assert (missing.status, missing.error["type"]) == (404, "AddressesNotFound")
    fixed = client.put(own, {"address_group": {"addresses": []}})
    assert fixed.status == 400
    assert client.get(own).json == {"address_group": made}


def test_a_group_has_a_largest_size(client: Client) -> None:
    most = Settings().max_addresses_per_address_group
    half = [f"10.{n >> 8}.{n & 255}.0/24" for n in range(most // 2)]
    made = client.make("address-groups", addresses=half)
    more = [f"2001:db8:{n:x}::/48" for n in range(most // 2 + 1)]
    own = f"address-groups/{made['id']}/add_addresses"
    whole = {"address_group": {"addresses": [*half, *more]}}
    for refused in (client.put(own, {"addresses": more}), client.post("address-groups", whole)):
        assert refused.status == 400
        assert f"the group would have {most + 1}, more than {most}" in refused.error["message"]
    assert client.put(own, {"addresses": more[1:]}).status == 200


def test_a_group_that_is_larger_than_allowed_can_shrink(
    client: Client, plugins: list[HandlerPlugin]
) -> None:
    made = client.make("address-groups", addresses=PREFIXES)
    own = f"address-groups/{made['id']}"
    context = plugins[0].context
    context.settings = evolve(context.settings, max_addresses_per_address_group=1)
    assert client.put(f"{own}/add_addresses", {"addresses": ["192.0.2.1"]}).status == 400
    assert client.put(own, {"address_group": {"name": "office"}}).status == 200
    left = client.put(f"{own}/remove_addresses", {"addresses": PREFIXES[:1]})
    assert left.json["address_group"]["addresses"] == NORMALISED[1:]


def test_a_rule_keeps_its_address_group(client: Client) -> None:
    made = client.make("address-groups", addresses=PREFIXES)
    rule = rule_of(client, made["id"], protocol="tcp")
    assert rule["remote_address_group_id"] == made["id"]
    own = f"address-groups/{made['id']}"
    refused = client.delete(own)
    assert (refused.status, refused.error["type"]) == (409, "AddressGroupInUse")
    assert refused.error["message"] == (
        f"address group {made['id']} is named by rules "
        f"(security_group_rule {rule['id']}); delete them first"
    )
    found = client.get("security-group-rules", remote_address_group_id=made["id"])
    assert [each["id"] for each in found.json["security_group_rules"]] == [rule["id"]]
    assert client.delete(f"security-group-rules/{rule['id']}").status == 204
    assert client.delete(own).status == 204


def test_a_change_of_addresses_leaves_rules_alone(client: Client) -> None:
    made = client.make("address-groups", addresses=PREFIXES)
    rule = rule_of(client, made["id"])
    added = client.put(f"address-groups/{made['id']}/add_addresses", {"addresses": ["9.9.9.9"]})
    assert added.status == 200
    assert client.get(f"security-group-rules/{rule['id']}").json == {"security_group_rule": rule}


def test_a_rule_has_one_kind_of_remote(client: Client) -> None:
    made = client.make("address-groups")
    group = client.make("security-groups", name="web")["id"]
    body = {
        "security_group_id": group,
        "direction": "ingress",
        "remote_address_group_id": made["id"],
        "remote_ip_prefix": "10.0.0.0/8",
    }
    assert client.post("security-group-rules", {"security_group_rule": body}).status == 400


def test_others_see_an_address_group_only_if_it_is_shared(
    client: Client, plugins: list[HandlerPlugin]
) -> None:
    made = client.make("address-groups", addresses=PREFIXES)
    own, bob = f"address-groups/{made['id']}", client.as_("bob/member")
    assert bob.get(own).status == 404
    assert bob.get("address-groups").json == {"address_groups": []}
    group = bob.make("security-groups", name="web")["id"]
    rule = {
        "security_group_id": group,
        "direction": "ingress",
        "remote_address_group_id": made["id"],
    }
    body = {"security_group_rule": rule}
    assert bob.post("security-group-rules", body).error["type"] == "AddressGroupNotFound"
    _share(plugins[0], made["id"])
    assert bob.get(own).json["address_group"]["shared"] is True
    assert bob.post("security-group-rules", body).status == 201
    for action in ("add_addresses", "remove_addresses"):
        assert bob.put(f"{own}/{action}", {"addresses": NORMALISED}).status in (403, 404)
    assert bob.delete(own).status in (403, 404)
    refused = client.delete(own)
    assert (refused.status, refused.error["type"]) == (409, "AddressGroupInUse")


def _share(plugin: HandlerPlugin, id: str) -> None:
    def share(unit: UnitOfWork) -> None:
        handler: Any = unit.context.handler("address_group")
        before = handler.get_for_update(unit, id)
        unit.update(before, evolve(before, shared=True))

    plugin.context.run(ADMIN, share)


def test_readers_only_read(client: Client) -> None:
    made = client.make("address-groups", addresses=PREFIXES)
    own, reader = f"address-groups/{made['id']}", client.as_("alice/reader")
    assert reader.get(own).status == 200
    assert reader.post("address-groups", {"address_group": {}}).status == 403
    assert reader.put(f"{own}/add_addresses", {"addresses": ["9.9.9.9"]}).status == 403


def test_several_are_created_and_listed_with_the_same_number_of_statements(
    client: Client, plugins: list[HandlerPlugin]
) -> None:
    statements: list[str] = []
    database = plugins[0].context.database
    event.listen(
        database.reading,
        "before_cursor_execute",
        lambda conn, cursor, text, *rest: statements.append(text),
    )

    def cost() -> int:
        statements.clear()
        assert client.get("address-groups").status == 200
        return len(statements)

    client.make("address-groups")
    one = cost()
    bodies = [{"addresses": [f"10.0.{n}.0/24"]} for n in range(20)]
    made = client.post("address-groups", {"address_groups": bodies})
    assert (made.status, len(made.json["address_groups"])) == (201, 20)
    assert cost() == one
