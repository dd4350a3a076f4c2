"""Networks: their segments, their MTU, what can be changed, and what goes with them."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Query
from netfw.errors import (
    ConfigError,
    Conflict,
    Exhausted,
    InvalidInput,
    NotFound,
    NotSupported,
    Outdated,
)
from netfw.model.floating_ip import FloatingIp
from netfw.model.ids import FloatingIpId, NetworkId, RouterId
from netfw.model.resource import Kind
from netfw.model.router import ExternalGateway, Router
from netfw.model.segment import NetworkType
from netfw.server.core.settings import Settings
from netfw.server.core.type_drivers import TypeDrivers
from netfw.server.db import Database
from netfw.server.l3.routers import RouterPlugin
from netfw_drivers.mechanism_drivers.logger import LoggerMechanismDriver
from netfw_drivers.type_drivers.vlan import VlanTypeDriver
from tests.server.core.core_client import (
    ADMIN,
    ALICE,
    BOB,
    Calls,
    core_plugin,
    statements,
    type_drivers,
)

pytestmark = pytest.mark.real


@pytest.fixture
def calls(database: Database) -> Calls:
    return Calls(core_plugin(database))


def provider(network: dict[str, Any]) -> tuple[Any, Any, Any]:
    names = ("network_type", "physical_network", "segmentation_id")
    return tuple(network[f"provider:{name}"] for name in names)


def segments(calls: Calls, network: dict[str, Any]) -> list[tuple[Any, ...]]:
    names = ("network_type", "physical_network", "segmentation_id")
    found = calls.all("segment", network_id=network["id"])
    return sorted(tuple(each[name] for name in names) for each in found)


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


@pytest.mark.spec("ML2-16")
@pytest.mark.spec("ML2-01")
def test_types_are_tried_in_order_until_none_has_numbers_left(database: Database) -> None:
    calls = Calls(core_plugin(database, "vlan", "gre"))
    made = [provider(calls.network()) for _ in range(5)]
    assert made[:3] == [("vlan", "physnet1", number) for number in (100, 101, 102)]
    assert made[3:] == [("gre", None, 1), ("gre", None, 2)]
    with pytest.raises(Exhausted, match="vlan, gre"):
        calls.network()
    calls.delete("network", calls.all("network", provider__segmentation_id=101)[0]["id"])
    assert provider(calls.network()) == ("vlan", "physnet1", 101)


def test_external_networks_have_a_type_of_their_own_where_one_is_configured(
    database: Database,
) -> None:
    calls = Calls(core_plugin(database, external_network_type=NetworkType.VLAN))
    assert provider(calls.network(ADMIN, router__external=True))[0] == "vlan"
    assert provider(calls.network())[0] == "vxlan"


@pytest.mark.spec("ML2-01")
def test_a_server_without_the_types_that_networks_get_does_not_start() -> None:
    with pytest.raises(ConfigError, match="tenant_network_types: vxlan is not among type_drivers"):
        TypeDrivers((), Settings())
    twice = (*type_drivers(), VlanTypeDriver({}))
    with pytest.raises(ConfigError, match="vlan and vlan are both for vlan"):
        TypeDrivers(twice, Settings())


@pytest.mark.spec("ML2-01")
def test_a_named_segment_is_allocated_once(calls: Calls) -> None:
    vlan = {"provider__network_type": "vlan", "provider__physical_network": "physnet1"}
    made = calls.network(ADMIN, **vlan, provider__segmentation_id=7)
    assert provider(made) == ("vlan", "physnet1", 7)
    assert made["mtu"] == 1500
    with pytest.raises(Conflict, match="VLAN 7 of physical network physnet1 is taken"):
        calls.network(ADMIN, **vlan, provider__segmentation_id=7)
    assert provider(calls.network(ADMIN, **vlan)) == ("vlan", "physnet1", 100)
    assert provider(calls.network(ADMIN, provider__network_type="gre")) == ("gre", None, 1)
    flat = {"provider__network_type": "flat", "provider__physical_network": "physnet2"}
    calls.network(ADMIN, **flat)
    with pytest.raises(Conflict, match="physnet2"):
        calls.network(ADMIN, **flat)
    calls.delete("network", made["id"], ADMIN)
    assert calls.network(ADMIN, **vlan, provider__segmentation_id=7)


@pytest.mark.spec("ML2-01")
@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"provider__network_type": "vlan", "provider__segmentation_id": 5}, "physical_network"),
        ({"provider__physical_network": "physnet1"}, "network_type"),
        ({"provider__network_type": "flat", "provider__physical_network": "x"}, "physical_network"),
        ({"provider__network_type": "vxlan", "provider__segmentation_id": 0}, "segmentation_id"),
        ({"provider__network_type": "local", "provider__segmentation_id": 4}, "segmentation_id"),
    ],
)
def test_a_segment_that_cannot_be_is_refused_by_attribute(
    calls: Calls, wrong: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        calls.network(ADMIN, **wrong)
    assert f"provider:{path}" in refused.value.problems
    assert not calls.all("network")


@pytest.mark.spec("API-06")
def test_a_network_can_have_several_segments_and_all_or_none_are_taken(calls: Calls) -> None:
    both = [
        {"provider:network_type": "vlan", "provider:physical_network": "physnet1"},
        {"provider:network_type": "vxlan", "provider:segmentation_id": 77},
    ]
    made = calls.network(ADMIN, segments=both)
    numbers = [each["provider:segmentation_id"] for each in made["segments"]]
    assert numbers == [100, 77]
    assert "provider:network_type" not in made
    assert made["mtu"] == 1450, "the smaller one of the two"
    assert segments(calls, made) == [("vlan", "physnet1", 100), ("vxlan", None, 77)]
    with pytest.raises(Conflict, match="77"):
        calls.network(ADMIN, segments=both)
    again = calls.network(ADMIN, segments=[both[0], {"provider:network_type": "local"}])
    assert again["segments"][0]["provider:segmentation_id"] == 101, "nothing of it was kept"
    wrong = [both[0], {"provider:network_type": "flat", "provider:physical_network": "nowhere"}]
    with pytest.raises(InvalidInput) as refused:
        calls.network(ADMIN, segments=wrong)
    assert list(refused.value.problems) == ["segments[1].provider:physical_network"]
    calls.delete("network", made["id"], ADMIN)
    assert calls.network(ADMIN, segments=both)["segments"][0]["provider:segmentation_id"] == 100


@pytest.mark.spec("API-06")
def test_an_mtu_can_be_chosen_as_far_as_the_segments_carry_it(calls: Calls) -> None:
    made = calls.network(mtu=1400)
    assert made["mtu"] == 1400
    assert calls.change("network", made["id"], mtu=1450)["mtu"] == 1450
    for wrong in (1451, 67):
        with pytest.raises(InvalidInput, match="mtu"):
            calls.network(mtu=wrong)
        with pytest.raises(InvalidInput, match="mtu"):
            calls.change("network", made["id"], mtu=wrong)
    big = {"provider__network_type": "flat", "provider__physical_network": "big"}
    assert calls.network(ADMIN, **big)["mtu"] == 9000
    calls.subnet(made, "fd00::/64")
    with pytest.raises(Conflict, match="1280"):
        calls.change("network", made["id"], mtu=1279)
    four = calls.network()
    calls.subnet(four, "10.0.0.0/24")
    assert calls.change("network", four["id"], mtu=68)["mtu"] == 68
    with pytest.raises(Conflict, match="68"):
        calls.change("network", four["id"], mtu=67)
    small = calls.network(mtu=1000)
    with pytest.raises(Conflict, match="1280"):
        calls.subnet(small, "fd00::/64")


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


def test_of_its_segments_only_the_number_of_a_vlan_changes(calls: Calls) -> None:
    vlan = {"provider__network_type": "vlan", "provider__physical_network": "physnet1"}
    made = calls.network(ADMIN, **vlan)
    other = calls.network(ADMIN, **vlan)
    after = calls.change("network", made["id"], ADMIN, provider__segmentation_id=900)
    assert provider(after) == ("vlan", "physnet1", 900)
    assert segments(calls, made) == [("vlan", "physnet1", 900)]
    with pytest.raises(Conflict, match="101"):
        calls.change("network", made["id"], ADMIN, provider__segmentation_id=101)
    with pytest.raises(InvalidInput, match="provider:segmentation_id"):
        calls.change("network", made["id"], ADMIN, provider__segmentation_id=5000)
    assert provider(calls.network(ADMIN, **vlan))[2] == 100, "the former one is free"
    same = calls.change("network", other["id"], ADMIN, **vlan)
    assert same["revision_number"] == 1
    with pytest.raises(InvalidInput, match="provider:network_type: cannot be changed"):
        calls.change("network", other["id"], ADMIN, provider__network_type="flat")
    tunnel = calls.network()
    with pytest.raises(InvalidInput, match="provider:segmentation_id: cannot be changed"):
        calls.change("network", tunnel["id"], ADMIN, provider__segmentation_id=5)


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
    with pytest.raises(Conflict, match="other projects have 1 port"):
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


def test_segments_come_and_go_with_their_network_alone(calls: Calls) -> None:
    network = calls.network()
    (segment,) = calls.all("segment")
    assert segment["network_id"] == network["id"]
    for deed in (
        lambda: calls.make("segment", ADMIN, network_id=network["id"], network_type="local"),
        lambda: calls.change("segment", segment["id"], ADMIN, name="x"),
        lambda: calls.delete("segment", segment["id"], ADMIN),
    ):
        with pytest.raises(NotSupported):
            deed()


class Strict(LoggerMechanismDriver):
    """Refuses what is called so, and remembers what it was asked about."""

    def __init__(self) -> None:
        self.seen: list[Change] = []

    def validate(self, change: Change) -> None:
        self.seen.append(change)
        if getattr(change.resource, "name", "") == "refused":
            raise Conflict("the switch cannot")


@pytest.mark.spec("ML2-02")
@pytest.mark.spec("ML2-03")
def test_a_driver_that_refuses_has_everything_undone(database: Database) -> None:
    first, second = Strict(), Strict()
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
    assert len(seen) <= 11
    with statements(database) as seen:
        calls.change("network", network["id"], name="x")
    assert len(seen) <= 9
    with statements(database) as seen:
        calls.delete("network", network["id"])
    assert len(seen) <= 21
