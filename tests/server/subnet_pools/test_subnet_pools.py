"""Subnet pools as clients use them: prefixes of subnets, limits, prefix operations, onboarding."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.model.subnet_pool import MAX_PREFIXES
from netfw.server.core.handler_plugin import HandlerPlugin
from tests.server.api.environment import Client, Reply
from tests.server.core.core_client import statements

pytestmark = pytest.mark.spec("API-07")

Json = dict[str, Any]


def make_pool(client: Client, *prefixes: str, **more: Any) -> Json:
    lengths = {} if more or ":" in prefixes[0] else {"default_prefixlen": 24, "min_prefixlen": 16}
    return client.make("subnetpools", **{"name": "p", "prefixes": prefixes, **lengths, **more})


def ask(client: Client, network: str | None = None, **attributes: Any) -> Reply:
    """Request a subnet, on a network of its own."""
    network = network or client.network()["id"]
    return client.post("subnets", {"subnet": {"network_id": network, **attributes}})


def get(client: Client, pool: Json, **attributes: Any) -> Json:
    reply = ask(client, subnetpool_id=pool["id"], **attributes)
    assert reply.status == 201, reply.data
    return dict(reply.json["subnet"])


def refused(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.error["type"]


def test_a_pool_is_compacted_and_completed(alice: Client) -> None:
    pool = alice.make("subnetpools", name="p", prefixes=["10.1.0.0/16", "10.0.0.1/16"])
    assert pool["prefixes"] == ["10.0.0.0/15"]
    shown = alice.get(f"subnetpools/{pool['id']}").json["subnetpool"]
    assert shown == pool
    expected = {
        "ip_version": 4,
        "min_prefixlen": "8",
        "default_prefixlen": "8",
        "max_prefixlen": "32",
        "default_quota": None,
        "address_scope_id": None,
        "is_default": False,
        "shared": False,
        "tags": [],
        "revision_number": 1,
    }
    assert {name: pool[name] for name in expected} == expected


def test_subnets_get_prefixes_by_length_and_by_cidr_and_return_them(alice: Client) -> None:
    pool = make_pool(alice, "10.0.0.0/22")
    first = get(alice, pool, ip_version=4)
    assert (first["cidr"], first["subnetpool_id"]) == ("10.0.0.0/24", pool["id"])
    assert first["gateway_ip"] == "10.0.0.1"
    assert first["allocation_pools"] == [{"start": "10.0.0.2", "end": "10.0.0.254"}]
    assert get(alice, pool, prefixlen=26)["cidr"] == "10.0.1.0/26"
    wanted = get(alice, pool, cidr="10.0.3.0/24", gateway_ip="10.0.3.9")
    assert (wanted["cidr"], wanted["gateway_ip"]) == ("10.0.3.0/24", "10.0.3.9")
    assert refused(ask(alice, subnetpool_id=pool["id"], cidr="10.0.3.128/25")) == (
        409,
        "SubnetAllocationError",
    )
    alice.delete(f"subnets/{first['id']}")
    alice.delete(f"networks/{wanted['network_id']}")  # with its subnet
    assert get(alice, pool, prefixlen=24)["cidr"] == "10.0.0.0/24"
    assert get(alice, pool, cidr="10.0.3.0/24")["cidr"] == "10.0.3.0/24"


def test_a_pool_is_used_up_and_then_whole_again(alice: Client) -> None:
    pool = make_pool(alice, "10.0.0.0/24", default_prefixlen=26, min_prefixlen=24)
    made = [get(alice, pool) for _ in range(4)]
    assert {each["cidr"] for each in made} == {f"10.0.0.{at}/26" for at in (0, 64, 128, 192)}
    reply = ask(alice, subnetpool_id=pool["id"])
    assert refused(reply) == (409, "SubnetAllocationError")
    assert "add prefixes" in reply.error["message"]
    for each in made:
        alice.delete(f"subnets/{each['id']}")
    assert get(alice, pool, prefixlen=24)["cidr"] == "10.0.0.0/24"


def test_ipv6_subnets_get_prefixes(alice: Client) -> None:
    pool = alice.make("subnetpools", name="six", prefixes=["2001:db8::/48"])
    got = [get(alice, pool, ip_version=6)["cidr"] for _ in range(2)]
    assert got == ["2001:db8::/64", "2001:db8:0:1::/64"]
    assert refused(ask(alice, subnetpool_id=pool["id"], ip_version=4))[0] == 400


def test_requests_that_contradict_themselves_are_refused(alice: Client) -> None:
    pool = make_pool(alice, "10.0.0.0/16", default_prefixlen=24, min_prefixlen=20, max_prefixlen=28)
    of = {"subnetpool_id": pool["id"]}
    wrong: list[tuple[Json, str]] = [
        ({**of, "prefixlen": 30}, "MaxPrefixSubnetAllocationError"),
        ({**of, "prefixlen": 16}, "MinPrefixSubnetAllocationError"),
        ({**of, "cidr": "10.0.0.0/16"}, "MinPrefixSubnetAllocationError"),
        ({**of, "cidr": "2001:db8::/64"}, "BadRequest"),
        ({**of, "cidr": "2001:db8::/64", "ip_version": 6}, "BadRequest"),
        ({**of, "ip_version": 6}, "BadRequest"),
    ]
    for body, word in wrong:
        assert refused(ask(alice, **body)) == (400, word)
    for more in (
        {**of, "prefixlen": 24, "cidr": "10.0.0.0/24"},
        {**of, "use_default_subnetpool": True},
        {**of, "allocation_pools": [{"start": "10.0.0.2", "end": "10.0.0.3"}]},
        {**of, "gateway_ip": "192.0.2.1"},
        {"use_default_subnetpool": True},
        {"use_default_subnetpool": True, "ip_version": 4},
        {"prefixlen": 24},
        {},
    ):
        reply = ask(alice, **more)
        assert reply.status == 400, (more, reply.data)
    assert get(alice, pool)["cidr"] == "10.0.0.0/24"  # nothing was kept by a refusal


def test_subnets_of_a_network_are_of_one_pool(alice: Client) -> None:
    one, two = make_pool(alice, "10.0.0.0/16"), make_pool(alice, "10.1.0.0/16")
    six = make_pool(alice, "2001:db8::/48")
    network = get(alice, one)["network_id"]
    for more in ({"subnetpool_id": two["id"]}, {"cidr": "192.0.2.0/24"}):
        assert refused(ask(alice, network, **more)) == (400, "NetworkSubnetPoolAffinityError")
    assert ask(alice, network, subnetpool_id=one["id"]).status == 201
    assert ask(alice, network, subnetpool_id=six["id"]).status == 201
    bulk = [{"network_id": alice.network()["id"], "subnetpool_id": each["id"]} for each in (one,)]
    bulk.append({"network_id": bulk[0]["network_id"], "subnetpool_id": two["id"]})
    reply = alice.post("subnets", {"subnets": bulk})
    assert refused(reply) == (400, "NetworkSubnetPoolAffinityError")


def test_each_project_has_a_quota_of_a_pool(alice: Client, admin: Client) -> None:
    pool = make_pool(admin, "10.0.0.0/16", default_quota=512, shared=True, default_prefixlen=24)
    get(alice, pool)
    get(alice, pool, prefixlen=25)
    reply = ask(alice, subnetpool_id=pool["id"])
    assert refused(reply) == (409, "SubnetPoolQuotaExceeded")
    get(alice, pool, prefixlen=25)
    get(alice.as_("bob/member"), pool)


def test_one_pool_of_an_ip_version_is_the_default(alice: Client, admin: Client) -> None:
    pool = make_pool(admin, "10.0.0.0/16", is_default=True, shared=True, default_prefixlen=24)
    hidden = make_pool(admin, "2001:db8::/48", is_default=True)
    body = {"name": "p", "prefixes": ["10.1.0.0/16"], "is_default": True}
    assert admin.post("subnetpools", {"subnetpool": body}).status == 400
    assert refused(alice.post("subnetpools", {"subnetpool": body}))[0] == 403
    reply = ask(alice, use_default_subnetpool=True, ip_version=4)
    assert reply.json["subnet"]["subnetpool_id"] == pool["id"]
    wanted = ask(alice, use_default_subnetpool=True, cidr="10.0.9.0/24")
    assert wanted.json["subnet"]["subnetpool_id"] == pool["id"]
    assert ask(alice, use_default_subnetpool=True, ip_version=6).status == 400
    admin.put(f"subnetpools/{hidden['id']}", {"subnetpool": {"is_default": False}})
    other = make_pool(admin, "2001:db8:1::/48")
    changed = admin.put(f"subnetpools/{other['id']}", {"subnetpool": {"is_default": True}})
    assert changed.json["subnetpool"]["is_default"] is True
    assert [each["id"] for each in admin.list("subnetpools", is_default=True, ip_version=6)] == [
        other["id"]
    ]


def test_pools_are_seen_by_their_project_and_when_shared(alice: Client, admin: Client) -> None:
    shared = make_pool(admin, "10.0.0.0/16", shared=True, default_prefixlen=24)
    hidden = make_pool(admin, "10.1.0.0/16", default_prefixlen=24)
    assert [each["id"] for each in alice.list("subnetpools")] == [shared["id"]]
    assert refused(alice.get(f"subnetpools/{hidden['id']}")) == (404, "SubnetPoolNotFound")
    assert refused(ask(alice, subnetpool_id=hidden["id"])) == (404, "SubnetPoolNotFound")
    assert alice.put(f"subnetpools/{shared['id']}", {"subnetpool": {"name": "x"}}).status == 403
    assert alice.delete(f"subnetpools/{shared['id']}").status == 403
    get(alice, shared)


def test_a_pool_in_use_stays_and_an_unused_one_goes(alice: Client) -> None:
    pool = make_pool(alice, "10.0.0.0/16")
    subnet = get(alice, pool)
    assert refused(alice.delete(f"subnetpools/{pool['id']}")) == (400, "SubnetPoolDeleteError")
    alice.delete(f"subnets/{subnet['id']}")
    assert alice.delete(f"subnetpools/{pool['id']}").status == 204
    assert alice.list("subnetpools") == []


def test_prefixes_are_added_and_removed(alice: Client) -> None:
    pool = make_pool(alice, "10.0.0.0/24", min_prefixlen=22, default_prefixlen=24)
    path = f"subnetpools/{pool['id']}"
    get(alice, pool)
    shrunk = alice.put(path, {"subnetpool": {"prefixes": ["10.9.0.0/24"]}})
    assert refused(shrunk) == (400, "IllegalSubnetPoolPrefixUpdate")
    grown = alice.put(path, {"subnetpool": {"prefixes": ["10.0.0.0/24", "10.0.1.0/24"]}})
    assert grown.json["subnetpool"]["prefixes"] == ["10.0.0.0/23"]
    added = alice.put(f"{path}/add_prefixes", {"prefixes": ["10.0.2.0/23", "10.0.8.0/24"]})
    assert added.json == {"prefixes": ["10.0.0.0/22", "10.0.8.0/24"]}
    busy = alice.put(f"{path}/remove_prefixes", {"prefixes": ["10.0.0.0/23"]})
    assert refused(busy) == (400, "IllegalSubnetPoolPrefixUpdate")
    left = alice.put(f"{path}/remove_prefixes", {"prefixes": ["10.0.2.0/24", "10.0.8.0/21"]})
    assert left.json == {"prefixes": ["10.0.0.0/23", "10.0.3.0/24"]}
    got = {get(alice, pool)["cidr"] for _ in range(2)}
    assert got == {"10.0.1.0/24", "10.0.3.0/24"}
    assert refused(ask(alice, subnetpool_id=pool["id"]))[1] == "SubnetAllocationError"
    everything = alice.put(f"{path}/remove_prefixes", {"prefixes": ["0.0.0.0/0"]})
    assert refused(everything) == (400, "EmptySubnetPoolPrefixList")
    mixed = alice.put(f"{path}/add_prefixes", {"prefixes": ["fd00::/48"]})
    assert mixed.status == 400


def test_removing_prefixes_leaves_no_more_than_a_pool_may_have(alice: Client) -> None:
    pool = make_pool(alice, "::/0")
    path = f"subnetpools/{pool['id']}"
    singles = [f"{number:x}00::1/128" for number in range(1, 11)]
    many = alice.put(f"{path}/remove_prefixes", {"prefixes": singles})
    assert refused(many) == (400, "InvalidInput")
    assert many.error["message"].endswith(f"and {MAX_PREFIXES} are allowed")
    assert alice.get(path).json["subnetpool"]["prefixes"] == ["::/0"]
    fewer = alice.put(f"{path}/remove_prefixes", {"prefixes": singles[:5]})
    assert fewer.status == 200


def test_existing_subnets_are_put_into_a_pool(alice: Client) -> None:
    pool = make_pool(alice, "10.0.0.0/24")
    path = f"subnetpools/{pool['id']}/onboard_network_subnets"
    network = alice.network()["id"]
    cidrs = ("10.0.0.0/25", "192.0.2.0/24")
    made = {cidr: ask(alice, network, cidr=cidr).json["subnet"]["id"] for cidr in cidrs}
    reply = alice.put(path, {"network_id": network})
    assert {each["cidr"]: each["id"] for each in reply.json["subnets"]} == made
    shown = alice.get(f"subnetpools/{pool['id']}").json["subnetpool"]
    assert shown["prefixes"] == ["10.0.0.0/24", "192.0.2.0/24"]
    assert {each["subnetpool_id"] for each in alice.list("subnets")} == {pool["id"]}
    assert get(alice, pool, prefixlen=25)["cidr"] == "10.0.0.128/25"
    assert refused(ask(alice, subnetpool_id=pool["id"]))[1] == "SubnetAllocationError"
    again = alice.put(path, {"network_id": network})
    assert refused(again) == (400, "IllegalSubnetPoolUpdate")
    alice.delete(f"subnets/{made['192.0.2.0/24']}")
    assert get(alice, pool)["cidr"] == "192.0.2.0/24"


def test_networks_of_others_are_not_put_into_a_pool(alice: Client, admin: Client) -> None:
    pool = make_pool(alice, "10.0.0.0/24")
    path = f"subnetpools/{pool['id']}/onboard_network_subnets"
    hidden, shared = admin.network(), admin.network(shared=True)
    assert alice.put(path, {"network_id": hidden["id"]}).status == 404
    assert alice.put(path, {"network_id": shared["id"]}).status == 403


def test_pools_are_counted(alice: Client, admin: Client) -> None:
    admin.put("quotas/alice", {"quota": {"subnetpool": 1}})
    pool = make_pool(alice, "10.0.0.0/24")
    body = {"name": "p", "prefixes": ["10.1.0.0/16"]}
    assert refused(alice.post("subnetpools", {"subnetpool": body})) == (409, "OverQuota")
    alice.delete(f"subnetpools/{pool['id']}")
    make_pool(alice, "10.0.0.0/24")


def test_an_allocation_costs_the_same_however_many_subnets_there_are(
    alice: Client, plugins: list[HandlerPlugin]
) -> None:
    database = plugins[0].context.database

    def cost() -> int:
        network = alice.network()["id"]
        with statements(database) as seen:
            assert ask(alice, network, subnetpool_id=pool["id"], prefixlen=28).status == 201
        return len(seen)

    def highest_cost() -> int:
        """Return the higher cost of two prefixes, one of which is split off a larger one."""
        return max(cost(), cost())

    pool = make_pool(alice, "10.0.0.0/16", "10.2.0.0/16", default_prefixlen=24)
    cost()
    before = highest_cost()
    for _ in range(20):
        get(alice, pool, prefixlen=28)
    assert highest_cost() == before
