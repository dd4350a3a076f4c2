"""Stations on a real switch, with ports of both kinds."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from attrs import evolve

from netfw.drivers.interface import Attachment
from netfw.errors import Conflict
from netfw.linux import netns
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import AddVeth, DelLink, SetMac, SetMtu
from netfw.linux.service_netns import ServiceNetnsExecutor, plan_removal
from netfw.model.values.device_names import device_name
from netfw.model.values.ids import PortId
from netfw.plan import Update
from netfw_drivers.ovs.interface.driver import OvsInterfaceDriver
from tests.lab.linux.service_netns.samples import (
    OWNER,
    addresses,
    converge,
    in_netns,
    interfaces,
    ip,
    lines,
    plan,
    remove,
    seen,
    station,
)


def test_a_station_is_made_and_removed_without_a_plan_and_a_conflict_is_one(
    interface, stations, ovs
):
    wanted, taken = station(interface), station(interface, 2)
    foreign = device_name("tap", taken.port)
    with NetlinkClient() as network:
        network.apply([AddVeth(name=foreign, peer="other")])
    for _ in range(2):
        stations.make(wanted)
        assert plan(stations, wanted) == ()
        with pytest.raises(Conflict):
            stations.make(taken)
    for _ in range(2):
        stations.remove(wanted.netns, wanted.port)
        assert not netns.exists(wanted.netns)
    with NetlinkClient() as network:
        assert foreign in network.links()
        network.apply([DelLink(foreign)])


@pytest.mark.spec("DHCP-22", "DHCP-23", "DHCP-24", "DHCP-25", "DHCP-26", "DHCP-27")
def test_a_station_is_made_as_wanted_and_then_left_alone(interface, stations, ovs):
    wanted = station(interface, fill_checksums=True)
    converge(stations, wanted)
    device = wanted.device
    assert device in (f"tap{wanted.port}"[:14], f"ns-{wanted.port}"[:14])
    assert seen(wanted.netns) == {
        "links": {
            "lo": ("00:00:00:00:00:00", 65536, True),
            device: ("fa:16:3e:00:00:01", 1450, True),
        },
        "addresses": {
            "127.0.0.1/8 dev lo",
            "::1/128 dev lo",
            f"10.0.0.2/24 dev {device}",
            f"fd00::2/64 dev {device}",
            f"fe80::f816:3eff:fe00:1/64 dev {device}",
        },
        "routes": {
            f"10.0.0.0/24 {device}",
            f"default 10.0.0.1 {device}",
            f"fd00::/64 {device}",
            f"fe80::/64 {device}",
            f"default fd00::1 {device}",
        },
        "rules": [
            "-A POSTROUTING -j station-checksums",
            "-A station-checksums -p udp -m udp --dport 68 -j CHECKSUM --checksum-fill",
        ],
        "sysctls": {
            "net.ipv4.conf.all.promote_secondaries = 1",
            f"net.ipv6.conf.{device}.accept_ra = 0",
            f"net.ipv6.conf.{device}.accept_dad = 0",
            f"net.ipv6.conf.{device}.disable_ipv6 = 0",
        },
    }
    assert interface.present() == {wanted.port}
    assert f'iface-id="{wanted.port}"' in ovs.vsctl("list", "Interface")
    assert plan(stations, wanted) == ()


def test_a_removed_station_leaves_nothing(interface, stations):
    wanted = station(interface)
    converge(stations, wanted)
    assert stations.namespaces("qdhcp-") == {wanted.netns}
    remove(stations, wanted)
    assert stations.namespaces("qdhcp-") == frozenset()
    assert interface.present() == frozenset()
    assert remove(stations, wanted) == []
    with NetlinkClient() as root:
        assert not [name for name in root.links() if name.startswith(("tap", "ns-"))]


def test_a_station_of_an_unknown_port_is_removed_with_its_port(interface, stations):
    wanted = station(interface)
    converge(stations, wanted)
    for stage in plan_removal(OWNER, stations.observe(wanted.netns)):
        stations.apply(stage)
    assert interface.present() == frozenset()
    assert not netns.exists(wanted.netns)


@pytest.mark.spec("DHCP-23")
def test_a_device_that_is_there_is_used_without_asking_the_interface_driver(
    interface, stations, ovsdb
):
    wanted = station(interface)
    converge(stations, wanted)
    index = ip(wanted.netns, "link", "show", wanted.device)[0]["ifindex"]
    in_netns(wanted.netns, f"ip link set {wanted.device} down")
    helpless = ServiceNetnsExecutor(OvsInterfaceDriver(ovsdb, "br-none"))
    converge(helpless, evolve(wanted, addresses=interfaces("10.0.0.7/24")))
    (link,) = ip(wanted.netns, "link", "show", wanted.device)
    assert link["ifindex"] == index
    assert "UP" in link["flags"]


@pytest.mark.spec("DHCP-23")
def test_foreign_device_is_used_when_it_is_the_right_one(interface, stations):
    # A former service of the network leaves such a device at an upgrade.
    wanted = station(interface)
    netns.ensure(wanted.netns)
    with NetlinkClient() as root, NetlinkClient(wanted.netns) as network:
        root.apply([AddVeth(name="theirs", peer=wanted.device, peer_namespace=wanted.netns)])
        network.apply([SetMac(wanted.device, wanted.mac), SetMtu(wanted.device, wanted.mtu)])
    stages = lines(plan(stations, wanted))
    assert not [line for line in stages if line.startswith("interface")]
    converge(stations, wanted)
    assert plan(stations, wanted) == ()
    assert interface.present() == frozenset()


@pytest.mark.spec("DHCP-23")
def test_a_device_in_the_wrong_namespace_is_moved(interface, stations):
    wanted = station(interface)
    netns.ensure("elsewhere")
    attachment = evolve(wanted.attachment, netns="elsewhere")
    assert interface.converge(Update(put={wanted.port: attachment})).ok
    converge(stations, wanted)
    assert plan(stations, wanted) == ()
    assert [link["ifname"] for link in ip("elsewhere", "link", "show")] == ["lo"]


@pytest.mark.spec("DHCP-28")
def test_devices_that_do_not_belong_there_are_unplugged(interface, stations):
    old = station(interface)
    converge(stations, old)
    odd = PortId(uuid4())
    at = Attachment(device="odd-name", mac="fa:16:3e:00:00:08", netns=old.netns)
    assert interface.converge(Update(put={odd: at})).ok
    with NetlinkClient() as root:
        root.apply([AddVeth(name="theirs", peer="stray", peer_namespace=old.netns)])
    port = PortId(uuid4())
    new = evolve(old, port=port, device=interface.device_name(port), mac="fa:16:3e:00:00:07")
    converge(stations, new)
    assert plan(stations, new) == ()
    assert seen(new.netns)["links"].keys() == {"lo", new.device}
    assert interface.present() == {port}
    with NetlinkClient() as root:
        assert root.link("theirs") is None


OTHER = {
    "addresses": interfaces("10.0.0.3/16", "169.254.169.254/32", "fd00::2/48"),
    "gateways": addresses("192.0.2.1", "2001:db8::1"),
    "mtu": 1400,
}


def test_many_stations_are_made_changed_and_removed_at_once(interface, stations):
    wanted = [station(interface, number, fill_checksums=True) for number in range(1, 17)]
    changed = [evolve(each, **OTHER) for each in wanted]
    with ThreadPoolExecutor(8) as crew:
        list(crew.map(lambda each: converge(stations, each), wanted))
        assert [plan(stations, each) for each in wanted] == [()] * len(wanted)
        list(crew.map(lambda each: converge(stations, each), changed))
        assert [plan(stations, each) for each in changed] == [()] * len(wanted)
        assert interface.present() == {each.port for each in wanted}
        list(crew.map(lambda each: remove(stations, each), wanted))
    assert stations.namespaces("qdhcp-") == frozenset()
    assert interface.present() == frozenset()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("netns-")]
