"""Several servers on one database: no prefix twice, one default pool, one topology a project."""

from __future__ import annotations

from ipaddress import IPv4Network, collapse_addresses, ip_network
from itertools import combinations

import pytest

from netfw.server.db import Database
from tests.lab.server.db.processes import at_once
from tests.lab.server.l3.environment import ADMIN
from tests.lab.server.subnet_pools.processes import (
    Pools,
    become_default,
    get_topologies,
    join_scope,
    rescope_and_use,
    take_prefixes,
    take_this_prefix,
    use_and_delete,
    use_up_quota,
)

pytestmark = pytest.mark.spec("API-07")

WORKERS = 3


def overlaps(cidrs: list[str]) -> list[tuple[str, str]]:
    pairs = combinations(cidrs, 2)
    return [(one, other) for one, other in pairs if ip_network(one).overlaps(ip_network(other))]


def test_prefixes_that_several_servers_allocate_never_overlap(url: str, database: Database) -> None:
    core = Pools(database)
    pool = core.pool("10.0.0.0/25", "10.0.1.0/25", min_prefixlen=25, default_prefixlen=28)
    parts = at_once(WORKERS, take_prefixes, url, pool)
    kept = [cidr for part in parts for cidr in part]
    assert overlaps(kept) == []
    assert sorted(each["cidr"] for each in core.find("subnet")) == sorted(kept)
    for each in core.find("subnet"):
        core.delete("subnet", each["id"])
    whole = [core.subnet_of(pool, prefixlen=25)["cidr"] for _ in range(2)]
    assert whole == ["10.0.0.0/25", "10.0.1.0/25"]  # everything was merged again


def test_a_prefix_that_several_servers_want_goes_to_one(url: str, database: Database) -> None:
    pool = Pools(database).pool("10.0.0.0/16")
    cidrs = [f"10.0.{at}.0/24" for at in range(6)]
    parts = at_once(WORKERS, take_this_prefix, url, pool, cidrs)
    assert sorted(cidr for part in parts for cidr in part) == cidrs


def test_several_servers_keep_the_quota_of_a_pool(url: str, database: Database) -> None:
    core = Pools(database)
    pool = core.pool("10.0.0.0/16", default_quota=16 * 7 + 15)
    assert sum(at_once(WORKERS, use_up_quota, url, pool)) == 7
    assert len(core.find("subnet")) == 7


def test_one_of_many_pools_becomes_the_default(url: str, database: Database) -> None:
    prefixes = [f"10.{at}.0.0/16" for at in range(4)]
    assert sum(at_once(WORKERS, become_default, url, prefixes)) == 1
    assert len(Pools(database).find("subnetpool", is_default=True)) == 1


def test_pools_that_several_servers_put_into_a_scope_do_not_overlap(
    url: str, database: Database
) -> None:
    core = Pools(database)
    scope = core.create("address_scope", name="s", ip_version=4)["id"]
    prefixes = ["10.0.0.0/16", "10.0.0.0/17", "10.0.128.0/17", "10.1.0.0/16", "10.0.0.0/15"]
    parts = at_once(WORKERS, join_scope, url, scope, prefixes)
    made = [prefix for part in parts for prefix in part]
    assert made
    assert overlaps(made) == []


def test_a_pool_is_deleted_or_used(url: str, database: Database) -> None:
    core = Pools(database)
    pools = [core.pool(f"10.{at}.0.0/16") for at in range(8)]
    made = sum(at_once(WORKERS, use_and_delete, url, pools))
    left = {each["id"] for each in core.find("subnetpool")}
    users = [each["subnetpool_id"] for each in core.find("subnet")]
    assert len(users) == made
    assert set(users) <= left


def test_a_project_gets_one_topology_from_several_servers(url: str, database: Database) -> None:
    core = Pools(database)
    outside, _ = core.outside()
    core.update("network", outside, ADMIN, is_default=True)
    core.pool("10.0.0.0/16", who=ADMIN, is_default=True, shared=True, default_prefixlen=28)
    projects = [f"p{at}" for at in range(4)]
    first, *others = at_once(WORKERS, get_topologies, url, projects)
    assert others == [first] * (WORKERS - 1)
    networks = core.find("network", name="auto_allocated_network")
    assert {each["project_id"]: each["id"] for each in networks} == first
    assert len(core.find("router")) == len(core.find("subnet")) - 1 == len(projects)
    used = [ip_network(each["cidr"]) for each in core.find("subnet", ip_version=4)]
    assert all(isinstance(each, IPv4Network) for each in used)
    inside = [each for each in used if each.subnet_of(IPv4Network("10.0.0.0/16"))]
    assert list(collapse_addresses(inside)) == [IPv4Network("10.0.0.0/26")]


def test_networks_stay_in_one_scope_while_pools_move(url: str, database: Database) -> None:
    core = Pools(database)
    scopes = [core.create("address_scope", name="s", ip_version=4)["id"] for _ in range(2)]
    pools = [core.pool(f"10.{at}.0.0/16", address_scope_id=scopes[0]) for at in range(2)]
    made = [core.subnet_of(pools[0], prefixlen=28)["network_id"] for _ in range(3)]
    at_once(WORKERS, rescope_and_use, url, scopes, pools, made)
    scope_of = {each["id"]: each["address_scope_id"] for each in core.find("subnetpool")}
    for network in core.find("network"):
        subnets = core.find("subnet", network_id=network["id"])
        found = {scope_of[each["subnetpool_id"]] for each in subnets}
        assert found == {network["ipv4_address_scope"]}
