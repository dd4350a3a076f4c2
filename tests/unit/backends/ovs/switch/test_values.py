"""Names, records and options of the switch driver."""

from ipaddress import ip_address

import pytest

from netfw.drivers.firewall import FirewallDriver
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.switch import SwitchDriver
from netfw.drivers.values.switch_values import Endpoint
from netfw.errors import ConfigError
from netfw.model.segment import NetworkType
from netfw_drivers.ovs.common.local_vlans import LocalVlans, free_vlan, record_of
from netfw_drivers.ovs.switch.plan.settings import Settings, tunnel_name


def made(**options):
    host = LocalHostResources()
    return create(SwitchDriver, "openvswitch", options, host)


@pytest.mark.spec("L2-32")
def test_tunnels_are_named_by_type_and_peer():
    assert tunnel_name(Endpoint(NetworkType.VXLAN, ip_address("172.16.100.51"))) == "vxlan-ac106433"
    six = [Endpoint(NetworkType.GENEVE, ip_address(f"fd00::{n}")) for n in range(1, 50)]
    names = {tunnel_name(endpoint) for endpoint in six}
    assert len(names) == len(six)
    assert all(len(name) == 15 and name.startswith("geneve-") for name in names)


def test_links_of_bridges_with_long_names_have_different_ends():
    names = [f"br-physical-network-{n}" for n in (1, 2)]
    settings = Settings(mappings={str(n): name for n, name in enumerate(names)})
    ends = {end.name for cable in settings.bridge_links() for end in (cable.near, cable.far)}
    assert len(ends) == 4
    assert all(len(name) <= 15 for name in ends)


def test_a_record_holds_all_that_the_flows_are_made_of(segments):
    ids = dict(record_of(vlan, segment) for vlan, segment in segments.items())
    found = LocalVlans.recorded({**ids, "netfw-vlan-x": "a joke", "other": "thing"})
    assert sorted(found.numbers.values()) == sorted(segments)
    assert {s.id: s.provider for s in found.segments.values()} == {
        s.id: s.provider for s in segments.values()
    }


@pytest.fixture
def segments():
    from tests.unit.backends.ovs.switch.samples import network

    kinds = [
        network(1),
        network(2, "flat", physical_network="p"),
        network(3, "vlan", physical_network="p", segmentation_id=9),
        network(4, "vxlan", segmentation_id=77),
    ]
    values = [value for kind in kinds for value in kind.values()]
    return {10 + place: value.segments[0] for place, value in enumerate(values)}


def test_numbers_are_taken_from_hints_first_and_never_twice():
    assert free_vlan({1, 2}, [2, 5]) == 5
    assert free_vlan({1, 2}, [2, 4095, 0]) == 3


@pytest.mark.spec("L2-01")
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tunnel_types": ["vxlan"]}, "local_ip"),
        ({"tunnel_types": ["vlxan"], "local_ip": "192.0.2.1"}, "vlxan"),
        ({"local_ip": "not an address"}, "local_ip"),
        ({"local_ip": "192.0.2.1", "overlay_ip_version": 6}, "not IPv6"),
        ({"bridge_mappings": {"a": "br-ex", "b": "br-ex"}}, "br-ex is configured twice"),
        ({"bridge_mappings": {"a": "br-int"}}, "br-int is configured twice"),
    ],
)
def test_options_that_contradict_each_other_are_refused_with_what_to_change(options, text):
    with pytest.raises(ConfigError, match=text):
        made(**options)


def test_making_a_driver_touches_nothing():
    driver = made(ovsdb_connection="unix:/nowhere/db.sock", ovsdb_timeout=0.1)
    assert driver.describe().name == "openvswitch"
    assert "/nowhere/db.sock" in driver.problems()[0]
    driver.close()


def test_the_firewall_in_the_switch_reports_that_there_is_no_switch():
    options = {"ovsdb_connection": "unix:/nowhere/db.sock", "ovsdb_timeout": 0.1}
    driver = create(FirewallDriver, "openflow", options, LocalHostResources())
    assert "/nowhere/db.sock" in driver.problems()[0]
    driver.close()


@pytest.mark.parametrize("option", ["ovsdb_timeout", "ovsdb_monitor_respawn_interval"])
@pytest.mark.parametrize("seconds", ["nan", "inf", "0", "ten"])
def test_a_time_that_is_none_is_refused(option, seconds):
    with pytest.raises(ConfigError, match=option):
        made(**{option: seconds})
