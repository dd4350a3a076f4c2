"""Segments of networks: allocation, validation, changes, MTU."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.errors import (
    ConfigError,
    Conflict,
    Exhausted,
    InvalidInput,
    NotSupported,
)
from netfw.model.segment import NetworkType
from netfw.server.core.settings import Settings
from netfw.server.core.type_drivers import TypeDrivers
from netfw.server.db import Database
from netfw_drivers.type_drivers.vlan import VlanTypeDriver
from tests.server.core.core_client import (
    ADMIN,
    Calls,
    core_plugin,
    type_drivers,
)
from tests.server.l2.network_calls import provider, segments

pytestmark = pytest.mark.real


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


def test_segments_come_and_go_with_their_network_alone(calls: Calls) -> None:
    network = calls.network()
    (segment,) = calls.all("segment")
    assert segment["network_id"] == network["id"]
    for deed in (
        lambda: calls.make("segment", ADMIN, network_id=network["id"], network_type="local"),
        lambda: calls.delete("segment", segment["id"], ADMIN),
    ):
        with pytest.raises(NotSupported):
            deed()
