"""What operators write about segments: ranges, physical networks, MTUs; and what they get wrong."""

from __future__ import annotations

import pytest

from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.server.type_driver import Pool, Range, TypeDriver
from netfw.errors import ConfigError, Conflict, InvalidInput
from netfw.model.segment import NetworkType, Provider
from netfw.testing.fakes.allocations import MemoryAllocations
from netfw_drivers.type_drivers.ranges import joined, vlan_spans

pytestmark = pytest.mark.spec("ML2-01")


def driver(name: str, **options: object) -> TypeDriver:
    return create(TypeDriver, name, options, LocalHostResources())


def test_ranges_that_touch_or_overlap_are_one() -> None:
    assert joined([(5, 9), (1, 4), (8, 12), (20, 21), (11, 11)]) == ((1, 12), (20, 21))


def test_vlan_ranges_are_kept_per_physical_network_in_the_order_of_the_configuration() -> None:
    found = vlan_spans("o", ["b:10:19", " a ", "b:30:39", "b:15:25"])
    assert list(found.items()) == [("b", ((10, 25), (30, 39))), ("a", ())]


def test_the_ranges_of_a_tunnel_are_those_of_its_option() -> None:
    pool = Pool(NetworkType.VXLAN)
    expected = (Range(pool, 1, 1000), Range(pool, 5000, 5000))
    assert driver("vxlan", vni_ranges="5000:5000, 1:1000").ranges() == expected


@pytest.mark.parametrize(
    ("name", "option", "text", "messages"),
    [
        ("vxlan", "vni_ranges", "10:1", ["'10:1'", "1 comes before 10"]),
        ("vxlan", "vni_ranges", "0:5", ["0 is outside 1 to 16777215"]),
        ("geneve", "vni_ranges", "1:16777216", ["16777216 is outside"]),
        ("gre", "tunnel_id_ranges", "1:4294967296", ["4294967296 is outside 1 to 4294967295"]),
        ("gre", "tunnel_id_ranges", "7", ["'7'", "FIRST:LAST"]),
        ("vlan", "network_vlan_ranges", "physnet1:0:5", ["0 is outside 1 to 4094"]),
        ("vlan", "network_vlan_ranges", "physnet1:1:4095", ["4095 is outside 1 to 4094"]),
        ("vlan", "network_vlan_ranges", "physnet1:5", ["'physnet1:5'", "PHYSNET:FIRST:LAST"]),
        ("vlan", "network_vlan_ranges", ":1:5", ["not a physical network name"]),
        ("vlan", "network_vlan_ranges", "p:1:x,p q:1:2", ["'p:1:x'", "'p q:1:2'"]),
        ("flat", "flat_networks", "phys net", ["not a physical network name"]),
        ("flat", "physical_network_mtus", "physnet1:67", ["67 is outside 68 to 65535"]),
        ("vlan", "physical_network_mtus", "physnet1:big", ["'big' is no number"]),
        ("local", "global_physnet_mtu", 20, ["20 is outside 68"]),
        ("geneve", "max_header_size", 29, ["max_header_size cannot be 29"]),
        ("vxlan", "overlay_ip_version", 5, ["overlay_ip_version cannot be 5"]),
        ("vxlan", "path_mtu", 100, ["100 bytes", "leave 50", "raise path_mtu"]),
    ],
)
def test_what_is_written_wrongly_is_said_with_the_way_to_write_it(
    name: str, option: str, text: object, messages: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        driver(name, **{option: text})
    message = str(caught.value)
    for part in messages:
        assert part in message


@pytest.mark.parametrize(
    ("name", "options", "mtu"),
    [
        ("vxlan", {}, 1450),
        ("vxlan", {"overlay_ip_version": 6}, 1430),
        ("gre", {}, 1458),
        ("gre", {"overlay_ip_version": 6}, 1438),
        ("geneve", {}, 1450),
        ("geneve", {"max_header_size": 38, "overlay_ip_version": 6}, 1422),
        ("vxlan", {"global_physnet_mtu": 9000, "path_mtu": 4000}, 3950),
        ("vxlan", {"global_physnet_mtu": 1500, "path_mtu": 9000}, 1450),
        ("vxlan", {"global_physnet_mtu": 0, "path_mtu": 9000}, 8950),
        ("vxlan", {"global_physnet_mtu": 0}, 0),
        ("local", {}, 1500),
        ("local", {"global_physnet_mtu": 0}, 0),
    ],
)
def test_headers_are_taken_off_the_least_mtu_on_the_way(
    name: str, options: dict[str, object], mtu: int
) -> None:
    assert driver(name, **options).mtu(None) == mtu


def test_a_physical_network_has_its_own_mtu_or_that_of_all() -> None:
    vlan = driver("vlan", physical_network_mtus="fast:9000,slow:1400", global_physnet_mtu=1500)
    assert [vlan.mtu(name) for name in ("fast", "slow", "other", None)] == [9000, 1400, 1500, 1500]


def test_an_unknown_physical_network_is_refused_with_those_that_there_are() -> None:
    vlan = driver("vlan", network_vlan_ranges="physnet1:1:5,office")
    with pytest.raises(InvalidInput) as caught:
        vlan.validate(Provider(network_type=NetworkType.VLAN, physical_network="physnet11"))
    message = caught.value.problems["physical_network"]
    assert "did you mean 'physnet1'?" in message
    assert "physnet1, office" in message


def test_without_a_configured_physical_network_none_is_accepted() -> None:
    request = Provider(network_type=NetworkType.FLAT, physical_network="physnet1")
    with pytest.raises(InvalidInput, match="flat_networks has: none"):
        driver("flat", flat_networks=[]).validate(request)


def test_a_vlan_is_looked_for_in_one_physical_network_after_the_other() -> None:
    vlan = driver("vlan", network_vlan_ranges="b:7:7,none,a:3:3")
    with MemoryAllocations(vlan.ranges()).transaction() as store:
        given = [vlan.allocate(store) for _ in range(3)]
    assert [segment and segment.physical_network for segment in given] == ["b", "a", None]


def test_without_configured_vlans_the_option_that_names_them_is_said() -> None:
    vlan = driver("vlan", network_vlan_ranges=[])
    with (
        MemoryAllocations(vlan.ranges()).transaction() as store,
        pytest.raises(Conflict, match=r"\[vlan\] network_vlan_ranges is empty: name the physical"),
    ):
        vlan.reserve(Provider(network_type=NetworkType.VLAN), store)


@pytest.mark.parametrize(
    ("name", "options", "request_", "message"),
    [
        (
            "vlan",
            {"network_vlan_ranges": "a:3:3"},
            Provider(network_type=NetworkType.VLAN, physical_network="a", segmentation_id=3),
            "VLAN 3 of physical network a is taken",
        ),
        (
            "vlan",
            {"network_vlan_ranges": "a:3:3"},
            Provider(network_type=NetworkType.VLAN, physical_network="a"),
            "no VLAN is left in [vlan] network_vlan_ranges for physical network a",
        ),
        (
            "gre",
            {"tunnel_id_ranges": "3:3"},
            Provider(network_type=NetworkType.GRE),
            "no gre number is left in [gre] tunnel_id_ranges",
        ),
        (
            "geneve",
            {"vni_ranges": "3:3"},
            Provider(network_type=NetworkType.GENEVE, segmentation_id=3),
            "geneve number 3 is taken",
        ),
        (
            "flat",
            {},
            Provider(network_type=NetworkType.FLAT, physical_network="a"),
            "physical network a has a flat network",
        ),
    ],
)
def test_what_is_taken_or_exhausted_is_said_by_name(
    name: str, options: dict[str, object], request_: Provider, message: str
) -> None:
    subject = driver(name, **options)
    with MemoryAllocations(subject.ranges()).transaction() as store:
        subject.reserve(request_, store)
        with pytest.raises(Conflict) as caught:
            subject.reserve(request_, store)
    assert message in str(caught.value)
