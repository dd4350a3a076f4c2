"""Address scopes: which pools are in them, and which networks get them."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from netfw.server.core.handler_plugin import HandlerPlugin
from tests.server.api.environment import Client
from tests.server.core.core_client import statements
from tests.server.subnet_pools.test_subnet_pools import ask, get, make_pool, refused

pytestmark = pytest.mark.spec("API-07")


def make_scope(client: Client, version: int = 4, **more: Any) -> str:
    scope = client.make("address-scopes", **{"name": "s", "ip_version": version, **more})
    return str(scope["id"])


def scoped_pool(client: Client, prefix: str, scope: str | None) -> dict[str, Any]:
    lengths = {} if ":" in prefix else {"default_prefixlen": 24}
    return make_pool(client, prefix, address_scope_id=scope, **lengths)


def scopes_of(client: Client, network: str) -> tuple[Any, Any]:
    shown = client.get(f"networks/{network}").json["network"]
    return shown["ipv4_address_scope"], shown["ipv6_address_scope"]


def test_the_life_of_an_address_scope(alice: Client) -> None:
    made = alice.make("address-scopes", name="s", ip_version=4)
    assert {name: made[name] for name in ("name", "ip_version", "shared", "project_id")} == {
        "name": "s",
        "ip_version": 4,
        "shared": False,
        "project_id": "alice",
    }
    assert "tags" not in made
    path = f"address-scopes/{made['id']}"
    changed = alice.put(path, {"address_scope": {"name": "t"}}).json["address_scope"]
    assert changed["name"] == "t"
    assert alice.put(path, {"address_scope": {"ip_version": 6}}).status == 400
    assert alice.delete(path).status == 204
    assert refused(alice.get(path)) == (404, "AddressScopeNotFound")
    assert alice.post("address-scopes", {"address_scope": {"name": "x"}}).status == 400


def test_a_scope_is_shared_by_administrators_for_good(alice: Client, admin: Client) -> None:
    body = {"address_scope": {"name": "s", "ip_version": 4, "shared": True}}
    assert alice.post("address-scopes", body).status == 403
    hidden, shared = make_scope(admin), make_scope(admin, shared=True)
    assert [each["id"] for each in alice.list("address-scopes")] == [shared]
    assert alice.get(f"address-scopes/{hidden}").status == 404
    reply = admin.put(f"address-scopes/{shared}", {"address_scope": {"shared": False}})
    assert refused(reply) == (400, "AddressScopeUpdateError")


def test_pools_of_a_scope_do_not_overlap(alice: Client) -> None:
    scope, six = make_scope(alice), make_scope(alice, 6)
    one = scoped_pool(alice, "10.0.0.0/16", scope)
    for prefix in ("10.0.1.0/24", "10.0.0.0/8"):
        body = {"name": "p", "prefixes": [prefix], "address_scope_id": scope}
        reply = alice.post("subnetpools", {"subnetpool": body})
        assert refused(reply) == (409, "AddressScopePrefixConflict")
    two = scoped_pool(alice, "10.1.0.0/16", scope)
    outside = scoped_pool(alice, "10.0.0.0/16", None)
    for pool, change, word in (
        (two, {"prefixes": ["10.0.0.0/15"]}, "AddressScopePrefixConflict"),
        (outside, {"address_scope_id": scope}, "AddressScopePrefixConflict"),
        (outside, {"address_scope_id": six}, "IllegalSubnetPoolIpVersionAssociationToAddressScope"),
        (outside, {"address_scope_id": str(uuid4())}, "AddressScopeNotFound"),
    ):
        reply = alice.put(f"subnetpools/{pool['id']}", {"subnetpool": change})
        assert reply.error["type"] == word
    added = alice.put(f"subnetpools/{two['id']}/add_prefixes", {"prefixes": ["10.0.4.0/24"]})
    assert refused(added) == (409, "AddressScopePrefixConflict")
    for pool in (one, two):
        assert refused(alice.delete(f"address-scopes/{scope}")) == (409, "AddressScopeInUse")
        alice.put(f"subnetpools/{pool['id']}", {"subnetpool": {"address_scope_id": None}})
    assert alice.delete(f"address-scopes/{scope}").status == 204


def test_a_refusal_says_nothing_of_a_pool_of_another_project(alice: Client, admin: Client) -> None:
    scope = make_scope(admin, shared=True)
    other = scoped_pool(admin, "10.20.30.0/24", scope)
    body = {"name": "p", "prefixes": ["10.0.0.0/8"], "address_scope_id": scope}
    reply = alice.post("subnetpools", {"subnetpool": body})
    assert refused(reply) == (409, "AddressScopePrefixConflict")
    text = reply.error["message"]
    assert "10.0.0.0/8" in text
    assert "10.20.30.0/24" not in text
    assert other["id"] not in text
    told = admin.post("subnetpools", {"subnetpool": body}).error["message"]
    assert "10.20.30.0/24" in told
    assert other["id"] in told


def test_pools_of_one_request_do_not_overlap(alice: Client) -> None:
    scope = make_scope(alice)
    bodies = [
        {"name": "p", "prefixes": [prefix], "address_scope_id": scope}
        for prefix in ("10.0.0.0/16", "10.0.1.0/24")
    ]
    reply = alice.post("subnetpools", {"subnetpools": bodies})
    assert refused(reply) == (409, "AddressScopePrefixConflict")
    assert alice.list("subnetpools") == []


def test_a_request_reads_the_pools_of_a_scope_once(
    alice: Client, plugins: list[HandlerPlugin]
) -> None:
    def reads(count: int) -> int:
        scope = make_scope(alice)
        bodies = [
            {"name": "p", "prefixes": [f"10.{at}.0.0/16"], "address_scope_id": scope}
            for at in range(count)
        ]
        with statements(plugins[0].context.database) as seen:
            assert alice.post("subnetpools", {"subnetpools": bodies}).status == 201
            return sum("address_scope_id IN" in each.partition("WHERE")[2] for each in seen)

    assert reads(12) == reads(2) == 1


def test_a_pool_in_a_scope_of_others_is_changed_by_administrators(
    alice: Client, admin: Client
) -> None:
    pool = make_pool(alice, "10.0.0.0/16")
    path = f"subnetpools/{pool['id']}"
    change = {"subnetpool": {"address_scope_id": make_scope(admin)}}
    assert refused(alice.put(path, change)) == (404, "AddressScopeNotFound")
    change = {"subnetpool": {"address_scope_id": make_scope(admin, shared=True)}}
    assert admin.put(path, change).status == 200
    grow = {"subnetpool": {"prefixes": ["10.0.0.0/15"]}}
    assert refused(alice.put(path, grow)) == (400, "IllegalSubnetPoolUpdate")
    assert admin.put(path, grow).status == 200


def test_networks_have_the_scopes_of_their_subnets_pools(alice: Client) -> None:
    four, six = make_scope(alice), make_scope(alice, 6)
    pool, pool6 = scoped_pool(alice, "10.0.0.0/16", four), scoped_pool(alice, "fd00::/48", six)
    subnet = get(alice, pool)
    network = subnet["network_id"]
    assert scopes_of(alice, network) == (four, None)
    assert ask(alice, network, subnetpool_id=pool6["id"]).status == 201
    assert scopes_of(alice, network) == (four, six)
    (listed,) = alice.list("networks")
    assert (listed["ipv4_address_scope"], listed["ipv6_address_scope"]) == (four, six)
    other = make_scope(alice)
    alice.put(f"subnetpools/{pool['id']}", {"subnetpool": {"address_scope_id": other}})
    assert scopes_of(alice, network) == (other, six)
    alice.delete(f"subnets/{subnet['id']}")
    assert scopes_of(alice, network) == (None, six)


def test_subnets_of_a_network_are_in_one_scope(alice: Client) -> None:
    scope = make_scope(alice)
    one, two = (scoped_pool(alice, f"10.{at}.0.0/16", scope) for at in (0, 1))
    outside = scoped_pool(alice, "10.2.0.0/16", None)
    network = get(alice, one)["network_id"]
    reply = ask(alice, network, subnetpool_id=outside["id"])
    assert refused(reply) == (400, "NetworkAddressScopeAffinityError")
    assert ask(alice, network, subnetpool_id=two["id"]).status == 201
    leave = {"subnetpool": {"address_scope_id": None}}
    reply = alice.put(f"subnetpools/{one['id']}", leave)
    assert refused(reply) == (400, "NetworkAddressScopeAffinityError")
    assert scopes_of(alice, network) == (scope, None)


def test_networks_get_the_scope_of_a_pool_that_their_subnets_are_put_into(alice: Client) -> None:
    scope = make_scope(alice)
    pool = scoped_pool(alice, "10.0.0.0/16", scope)
    network = ask(alice, cidr="192.0.2.0/24").json["subnet"]["network_id"]
    path = f"subnetpools/{pool['id']}/onboard_network_subnets"
    assert alice.put(path, {"network_id": network}).status == 200
    assert scopes_of(alice, network) == (scope, None)


def test_a_pool_is_shared_only_with_projects_that_may_use_its_scope(
    alice: Client, admin: Client
) -> None:
    scope = make_scope(admin)

    def share(type: str, id: str, target: str, *, by: Client = admin) -> Any:
        body = {"object_type": type, "object_id": id, "target_tenant": target}
        return by.post("rbac-policies", {"rbac_policy": {**body, "action": "access_as_shared"}})

    assert share("address_scope", scope, "alice").status == 201
    pool = scoped_pool(alice, "10.0.0.0/16", scope)["id"]
    refusal = share("subnetpool", pool, "bob", by=alice)
    assert refused(refusal) == (400, "InvalidInput")
    assert f"address scope {scope}" in refusal.error["message"]
    assert share("subnetpool", pool, "*").status == 400
    assert share("address_scope", scope, "bob").status == 201
    policy = share("subnetpool", pool, "bob", by=alice).json["rbac_policy"]
    path, target = f"rbac-policies/{policy['id']}", {"target_tenant": "carol"}
    assert alice.put(path, {"rbac_policy": target}).status == 400
    assert share("subnetpool", pool, "root", by=alice).status == 201  # who owns the scope
    unscoped = scoped_pool(alice, "10.1.0.0/16", None)["id"]
    assert share("subnetpool", unscoped, "carol", by=alice).status == 201


def test_a_shared_pool_needs_a_scope_that_is_shared_with_the_same(
    alice: Client, admin: Client
) -> None:
    own, open_ = make_scope(admin), make_scope(admin, shared=True)
    new = {"name": "p", "prefixes": ["10.9.0.0/16"], "address_scope_id": own, "shared": True}
    assert refused(admin.post("subnetpools", {"subnetpool": new}))[0] == 400
    made = admin.post("subnetpools", {"subnetpool": {**new, "address_scope_id": open_}})
    path = f"subnetpools/{made.json['subnetpool']['id']}"
    back = {"subnetpool": {"address_scope_id": own}}
    assert refused(admin.put(path, back))[0] == 400
    assert own not in {each["id"] for each in alice.list("address-scopes")}


def test_access_to_a_scope_is_kept_for_pools_that_are_shared(admin: Client) -> None:
    scope = make_scope(admin)
    pool = scoped_pool(admin, "10.0.0.0/16", scope)["id"]

    def share(type: str, id: str, target: str) -> str:
        body = {"object_type": type, "object_id": id, "action": "access_as_shared"}
        made = admin.post("rbac-policies", {"rbac_policy": {**body, "target_tenant": target}})
        assert made.status == 201, made.data
        return f"rbac-policies/{made.json['rbac_policy']['id']}"

    others = share("address_scope", scope, "bob")
    grant, use = share("address_scope", scope, "alice"), share("subnetpool", pool, "alice")
    assert admin.delete(others).status == 204
    assert refused(admin.delete(grant)) == (409, "RbacPolicyInUse")
    everybody = share("address_scope", scope, "*")
    assert admin.delete(grant).status == 204
    assert refused(admin.delete(everybody)) == (409, "RbacPolicyInUse")
    assert admin.delete(use).status == 204
    assert admin.delete(everybody).status == 204
