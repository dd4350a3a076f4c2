"""Networks: defaults, changes, visibility, deletion, quotas."""

from __future__ import annotations

import sys
from uuid import UUID, uuid4

import pytest

from netfw.drivers.base import DriverInfo
from netfw.drivers.server.change import Change
from netfw.drivers.server.mechanism import MechanismCapability
from netfw.drivers.server.query import Query
from netfw.errors import (
    Conflict,
    DriverCrashed,
    Exhausted,
    InvalidInput,
    NotFound,
    Outdated,
)
from netfw.model.floating_ip import FloatingIp
from netfw.model.resource import Kind
from netfw.model.router import ExternalGateway, Router
from netfw.model.values.ids import FloatingIpId, NetworkId, RouterId
from netfw.server.db import Database
from netfw.server.l3.routers import RouterPlugin
from netfw_drivers.mechanism_drivers.logger import LoggerMechanismDriver
from tests.server.core.core_client import (
    ADMIN,
    ALICE,
    BOB,
    Calls,
    core_plugin,
    statements,
)
from tests.server.l2.network_calls import provider, segments

pytestmark = pytest.mark.real


@pytest.mark.spec("ML2-16")
@pytest.mark.spec("API-06")
def test_a_network_without_attributes_gets_a_segment_and_defaults(calls: Calls) -> None:
    made = calls.network(name="n")
    assert provider(made) == ("vxlan", None, 1000)
    assert segments(calls, made) == [("vxlan", None, 1000)]
    assert made["mtu"] == 1450
    assert made["status"] == "ACTIVE"
    assert made["revision_number"] == 1
    assert (made["shared"], made["router:external"], made["is_default"]) == (False,) * 3
    assert calls.show("network", made["id"]) == made
    assert provider(calls.network()) == ("vxlan", None, 1001)


@pytest.mark.spec("API-06")
@pytest.mark.spec("API-08")
def test_a_change_is_what_it_names_and_nothing_else(calls: Calls) -> None:
    made = calls.network(name="old", description="d")
    same = calls.change("network", made["id"], name="old")
    assert same["revision_number"] == 1
    after = calls.change("network", made["id"], name="new", admin_state_up=False)
    assert {name for name in after if after[name] != made[name]} <= {
        "name",
        "admin_state_up",
        "revision_number",
        "updated_at",
    }
    assert after["revision_number"] == 2
    with pytest.raises(Outdated):
        calls.plugin.update(ALICE, "network", made["id"], {"name": "x"}, revision=1)
    assert provider(calls.show("network", made["id"])) == provider(made)


@pytest.mark.spec("API-06")
def test_visibility_of_a_network(calls: Calls) -> None:
    own, shared = calls.network(), calls.network(ADMIN, shared=True)
    outside = calls.network(ADMIN, router__external=True)
    hidden = calls.network(ADMIN)
    seen = {each["id"] for each in calls.all("network", BOB)}
    assert seen == {shared["id"], outside["id"]}
    for id in (own["id"], hidden["id"], str(uuid4()), "no uuid"):
        with pytest.raises(NotFound):
            calls.show("network", id, BOB)
        with pytest.raises(NotFound):
            calls.delete("network", id, BOB)


@pytest.mark.spec("API-06")
def test_sharing_is_not_withdrawn_while_other_projects_use_it(calls: Calls) -> None:
    network = calls.network(ADMIN, shared=True)
    calls.subnet(network, "10.0.0.0/24", ADMIN)
    calls.make("port", ADMIN, network_id=network["id"])
    assert not calls.change("network", network["id"], ADMIN, shared=False)["shared"]
    calls.change("network", network["id"], ADMIN, shared=True)
    port = calls.make("port", BOB, network_id=network["id"])
    with pytest.raises(Conflict, match=r"port .* of another project"):
        calls.change("network", network["id"], ADMIN, shared=False)
    calls.delete("port", port["id"], BOB)
    assert not calls.change("network", network["id"], ADMIN, shared=False)["shared"]


def test_an_external_network_stays_so_while_routers_or_floating_ips_use_it(calls: Calls) -> None:
    network = calls.network(ADMIN, router__external=True, is_default=True)
    id, run = NetworkId(UUID(network["id"])), calls.plugin.context.run
    router = Router(id=RouterId(uuid4()), gateway=ExternalGateway(network_id=id))
    run(ADMIN, lambda unit: unit.insert(router))
    with pytest.raises(Conflict, match="1 routers use it"):
        calls.change("network", network["id"], ADMIN, router__external=False)
    run(ADMIN, lambda unit: unit.delete(unit.tx.resources.get(Kind.ROUTER, router.id).resource()))
    floating = FloatingIp(id=FloatingIpId(uuid4()), network_id=id, address="192.0.2.1")
    run(ADMIN, lambda unit: unit.insert(floating))
    with pytest.raises(Conflict, match="1 floating IPs use it"):
        calls.change("network", network["id"], ADMIN, router__external=False)
    run(
        ADMIN,
        lambda unit: unit.delete(unit.tx.resources.get(Kind.FLOATING_IP, floating.id).resource()),
    )
    after = calls.change("network", network["id"], ADMIN, router__external=False)
    assert (after["router:external"], after["is_default"]) == (False, False)


def test_there_is_one_default_external_network(calls: Calls) -> None:
    with pytest.raises(InvalidInput, match="is_default"):
        calls.network(ADMIN, is_default=True)
    first = calls.network(ADMIN, router__external=True, is_default=True)
    second = calls.network(ADMIN, router__external=True)
    with pytest.raises(Conflict, match=first["id"]):
        calls.change("network", second["id"], ADMIN, is_default=True)
    calls.change("network", first["id"], ADMIN, is_default=False)
    assert calls.change("network", second["id"], ADMIN, is_default=True)["is_default"]


def test_attributes_that_no_driver_or_agent_supports_are_refused(calls: Calls) -> None:
    with pytest.raises(InvalidInput, match="vlan_transparent"):
        calls.network(vlan_transparent=True)
    with pytest.raises(NotFound, match="zone-a"):
        calls.network(availability_zone_hints=["zone-a"])
    with pytest.raises(InvalidInput, match="nonsense"):
        calls.network(nonsense=1)


@pytest.mark.spec("API-06")
def test_unused_floating_ips_go_with_their_network(calls: Calls) -> None:
    routers = RouterPlugin(calls.plugin.context)
    outside = calls.network(ADMIN, router__external=True)
    calls.subnet(outside, "192.0.2.0/24", ADMIN)
    inside = calls.network()
    subnet = calls.subnet(inside, "10.0.0.0/24")
    port = calls.make("port", network_id=inside["id"])
    gateway = {"network_id": outside["id"]}
    (router,) = routers.create(
        ALICE, "router", [{"project_id": "alice", "external_gateway_info": gateway}]
    )
    body = {"subnet_id": subnet["id"]}
    routers.member_action(ALICE, "router", str(router["id"]), "add_router_interface", body)
    floating = {"project_id": "alice", "floating_network_id": outside["id"]}
    (used,) = routers.create(ALICE, "floatingip", [{**floating, "port_id": port["id"]}])
    routers.create(ALICE, "floatingip", [floating])
    with pytest.raises(Conflict, match="in use"):
        calls.delete("network", outside["id"], ADMIN)
    assert len(routers.find(ADMIN, "floatingip", Query())) == 2, "all or nothing"
    routers.update(ALICE, "floatingip", str(used["id"]), {"port_id": None})
    routers.update(ALICE, "router", str(router["id"]), {"external_gateway_info": None})
    calls.delete("network", outside["id"], ADMIN)
    assert routers.find(ADMIN, "floatingip", Query()) == ()


@pytest.mark.spec("ML2-02")
def test_a_network_goes_with_all_that_is_its_own(calls: Calls, database: Database) -> None:
    network = calls.network()
    subnet = calls.subnet(network, "10.0.0.0/24")
    calls.subnet(network, "fd00::/64", ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    port = calls.make("port", network_id=network["id"])
    with pytest.raises(Conflict, match="in use by 1 port;"):
        calls.delete("network", network["id"])
    calls.delete("port", port["id"])
    served = calls.make("port", network_id=network["id"], device_owner="network:dhcp")
    calls.delete("network", network["id"])
    for name, id in (("network", network["id"]), ("subnet", subnet["id"]), ("port", served["id"])):
        with pytest.raises(NotFound):
            calls.show(name, id)
    assert not calls.all("segment")
    used = database.read(lambda view: view.quotas.of_project("alice"))
    assert {name: used[name].used for name in ("network", "subnet", "port")} == {
        "network": 0,
        "subnet": 0,
        "port": 0,
    }
    assert provider(calls.network())[2] == 1000
    assert database.transaction(lambda tx: tx.addresses._ranges.pools("subnet/")) == ()


def test_quotas_of_networks_count_and_all_of_a_list_is_made_or_none(database: Database) -> None:
    calls = Calls(core_plugin(database, quotas={"network": 3, "subnet": -1, "port": -1}))
    body = {"project_id": "alice"}
    assert len(calls.plugin.create(ALICE, "network", [body, body])) == 2
    with pytest.raises(Exhausted, match="quota"):
        calls.plugin.create(ALICE, "network", [body, body])
    assert len(calls.all("network")) == 2
    assert provider(calls.network())[2] == 1002, "numbers of the refused ones are free"
    assert calls.network(BOB)


class Strict(LoggerMechanismDriver):
    """Refuses what is called so, and remembers what it was asked about."""

    def __init__(self, name: str) -> None:
        self.seen: list[Change] = []
        self._name = name

    def describe(self) -> DriverInfo[MechanismCapability]:
        return DriverInfo(self._name, super().describe().capabilities)

    def validate(self, change: Change) -> None:
        self.seen.append(change)
        if getattr(change.resource, "name", "") == "refused":
            raise Conflict("the switch cannot")
        if getattr(change.resource, "name", "") == "left":
            sys.exit("no switch")


@pytest.mark.spec("ML2-02")
@pytest.mark.spec("ML2-03")
def test_a_driver_that_refuses_has_everything_undone(database: Database) -> None:
    first, second = Strict("first"), Strict("second")
    calls = Calls(core_plugin(database, "vlan", mechanisms=(first, second)))
    kept = calls.network(name="kept")
    assert [change.ref.kind for change in second.seen] == [Kind.NETWORK]
    (change,) = second.seen
    assert change.before is None
    assert [each.provider.segmentation_id for each in change.segments] == [100]
    with pytest.raises(Conflict, match="the switch cannot"):
        calls.network(name="refused")
    assert len(second.seen) == 1, "drivers after the one that refuses are not asked"
    assert [each["name"] for each in calls.all("network")] == ["kept"]
    assert len(calls.all("segment")) == 1
    with pytest.raises(Conflict, match="the switch cannot"):
        calls.change("network", kept["id"], name="refused")
    assert calls.show("network", kept["id"]) == kept
    with pytest.raises(Conflict, match="the switch cannot"):
        calls.subnet(kept, "10.0.0.0/24", name="refused")
    assert calls.show("network", kept["id"])["subnets"] == []
    assert provider(calls.network())[2] == 101, "the number of the refused one is free"
    calls.subnet(kept, "10.0.0.0/24")
    second.seen.clear()
    calls.delete("network", kept["id"])
    assert [(c.ref.kind, c.after, len(c.segments)) for c in second.seen] == [
        (Kind.SUBNET, None, 1),
        (Kind.NETWORK, None, 1),
    ]


@pytest.mark.spec("ML2-02")
def test_a_driver_that_exits_has_everything_undone_and_ends_no_thread(database: Database) -> None:
    first, second = Strict("first"), Strict("second")
    calls = Calls(core_plugin(database, "vlan", mechanisms=(first, second)))
    with pytest.raises(DriverCrashed, match="first: SystemExit: no switch"):
        calls.network(name="left")
    assert second.seen == []
    assert calls.all("network") == []


def test_lists_cost_the_same_however_long_they_are(calls: Calls, database: Database) -> None:
    def cost() -> int:
        with statements(database) as seen:
            calls.plugin.find(ALICE, "network", Query())
        return len(seen)

    calls.subnet(calls.network(), "10.0.0.0/24")
    one = cost()
    calls.plugin.create(ALICE, "network", [{"project_id": "alice"}] * 20)
    assert cost() == one <= 4


def test_each_verb_on_a_network_takes_few_statements(calls: Calls, database: Database) -> None:
    calls.network()  # the project is counted from now on
    with statements(database) as seen:
        network = calls.network()
    assert len(seen) <= 12, "the default QoS policy of the project included"
    with statements(database) as seen:
        calls.change("network", network["id"], name="x")
    assert len(seen) <= 10
    with statements(database) as seen:
        calls.delete("network", network["id"])
    assert len(seen) <= 22
