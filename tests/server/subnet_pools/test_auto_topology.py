"""Auto-allocated topologies: a network with a way out, on request."""

from __future__ import annotations

import pytest

from tests.server.api.environment import Client
from tests.server.subnet_pools.test_subnet_pools import make_pool, refused

pytestmark = pytest.mark.spec("API-07")

PATH = "auto-allocated-topology"
KEY = "auto_allocated_topology"


@pytest.fixture
def outside(admin: Client) -> str:
    """Return the id of the default external network."""
    network = admin.network(router__external=True, is_default=True)["id"]
    admin.make("subnets", network_id=network, cidr="203.0.113.0/24", ip_version=4)
    return str(network)


@pytest.fixture
def pool(admin: Client) -> str:
    """Return the id of the default pool for IPv4."""
    more = {"is_default": True, "shared": True, "default_prefixlen": 26}
    return str(make_pool(admin, "10.0.0.0/24", **more)["id"])


def test_a_project_gets_a_network_with_a_way_out(alice: Client, outside: str, pool: str) -> None:
    got = alice.get(f"{PATH}/alice")
    assert got.status == 200, got.data
    (network,) = alice.list("networks", name="auto_allocated_network")
    assert got.json == {KEY: {"id": network["id"], "project_id": "alice", "tenant_id": "alice"}}
    (subnet,) = alice.list("subnets", network_id=network["id"])
    assert (subnet["name"], subnet["subnetpool_id"]) == ("auto_allocated_subnet_v4", pool)
    (router,) = alice.list("routers")
    assert (router["name"], router["project_id"]) == ("auto_allocated_router", "alice")
    assert router["external_gateway_info"]["network_id"] == outside
    (interface,) = alice.list("ports", network_id=network["id"], device_id=router["id"])
    assert interface["fixed_ips"][0]["subnet_id"] == subnet["id"]
    assert alice.get(f"{PATH}/alice").json == alice.get(f"{PATH}/None").json == got.json
    assert len(alice.list("networks", name="auto_allocated_network")) == 1


def test_a_topology_has_a_subnet_of_each_default_pool(
    alice: Client, admin: Client, outside: str, pool: str
) -> None:
    make_pool(admin, "fd00::/48", is_default=True, shared=True)
    network = alice.get(f"{PATH}/alice").json[KEY]["id"]
    names = alice.names("subnets", network_id=network)
    assert sorted(names) == ["auto_allocated_subnet_v4", "auto_allocated_subnet_v6"]


def test_a_dry_run_makes_nothing(alice: Client, admin: Client, outside: str) -> None:
    missing = alice.get(f"{PATH}/alice", fields="dry-run")
    assert refused(missing) == (409, "AutoAllocationFailure")
    make_pool(admin, "10.0.0.0/24", is_default=True, shared=True, default_prefixlen=26)
    found = alice.get(f"{PATH}/None", fields="dry-run")
    assert (found.status, found.json[KEY]["id"]) == (200, "dry-run=pass")
    assert found.json[KEY]["project_id"] == "alice"
    also = alice.get(f"{PATH}/None", ("fields", "id"), ("fields", "dry-run"))
    assert also.json == found.json
    assert alice.get(f"{PATH}/alice", fields="anything").status == 400
    assert alice.names("networks", project_id="alice") == []


def test_what_is_missing_is_named(alice: Client, admin: Client, pool: str) -> None:
    reply = alice.get(f"{PATH}/alice")
    assert refused(reply) == (409, "AutoAllocationFailure")
    assert "external network" in reply.error["message"]


def test_nothing_is_left_behind_by_a_failure(
    alice: Client, admin: Client, outside: str, pool: str
) -> None:
    for at in range(4):
        network = admin.network()["id"]
        admin.make("subnets", network_id=network, subnetpool_id=pool, name=str(at))
    reply = alice.get(f"{PATH}/alice")
    assert refused(reply) == (409, "AutoAllocationFailure")
    assert "has no free /26" in reply.error["message"]
    assert alice.names("networks", project_id="alice") == alice.names("routers") == []


def test_a_topology_is_deleted_whole(alice: Client, outside: str, pool: str) -> None:
    network = alice.get(f"{PATH}/alice").json[KEY]["id"]
    port = alice.make("ports", network_id=network)["id"]
    assert alice.delete(f"{PATH}/alice").status == 409
    assert len(alice.list("routers")) == 1
    alice.delete(f"ports/{port}")
    assert alice.delete(f"{PATH}/alice").status == 204
    assert alice.names("networks", project_id="alice") == alice.names("routers") == []
    assert alice.delete(f"{PATH}/alice").status == 204  # there is none
    assert alice.get(f"{PATH}/alice").json[KEY]["id"] != network


def test_a_topology_goes_without_its_router(alice: Client, outside: str, pool: str) -> None:
    alice.get(f"{PATH}/alice")
    (router,) = alice.list("routers")
    (subnet,) = alice.list("subnets", project_id="alice")
    alice.put(f"routers/{router['id']}/remove_router_interface", {"subnet_id": subnet["id"]})
    alice.delete(f"routers/{router['id']}")
    assert alice.delete(f"{PATH}/alice").status == 204
    assert alice.names("networks", project_id="alice") == []


def test_projects_see_their_own_topology_alone(
    alice: Client, admin: Client, outside: str, pool: str
) -> None:
    bob = alice.as_("bob/member")
    assert bob.get(f"{PATH}/alice").status == bob.delete(f"{PATH}/alice").status == 404
    assert admin.names("networks", name="auto_allocated_network") == []
    got = admin.get(f"{PATH}/alice").json[KEY]
    assert got["project_id"] == "alice"
    assert alice.get(f"{PATH}/alice").json[KEY]["id"] == got["id"]
    assert alice.as_("alice/reader").delete(f"{PATH}/alice").status == 403
    assert alice.get(PATH).status == 405
