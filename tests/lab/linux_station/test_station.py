"""Stations on a real switch, with ports of both kinds."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from attrs import evolve
from station_samples import (
    OWNER,
    addresses,
    awaited,
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

from netfw.drivers.interface import Attachment
from netfw.errors import BackendUnavailable, Conflict, OperationRefused
from netfw.linux import netns
from netfw.linux.network import Network
from netfw.linux.operations import AddVeth, DelLink, SetMac, SetMtu
from netfw.linux.station import Stations, plan_removal, plan_station
from netfw.model.device import device_name
from netfw.model.ids import PortId
from netfw.ovs.ovsdb import Ovsdb
from netfw.plan import Update
from netfw_drivers.ovs.interface import OvsInterfaceDriver


class Died(Exception):
    """Raised at a checkpoint, in place of a crash."""


def test_a_station_is_made_and_removed_without_a_plan_and_a_conflict_is_one(
    interface, stations, ovs
):
    wanted, taken = station(interface), station(interface, 2)
    foreign = device_name("tap", taken.port)
    with Network() as network:
        network.apply([AddVeth(name=foreign, peer="other")])
    for _ in range(2):
        stations.make(wanted)
        assert plan(stations, wanted) == ()
        with pytest.raises(Conflict):
            stations.make(taken)
    for _ in range(2):
        stations.remove(wanted.netns, wanted.port)
        assert not netns.exists(wanted.netns)
    with Network() as network:
        assert foreign in network.links()
        network.apply([DelLink(foreign)])


@pytest.mark.spec("DHCP-22", "DHCP-23", "DHCP-24", "DHCP-25", "DHCP-26", "DHCP-27")
def test_a_station_is_made_as_wanted_and_then_left_alone(interface, stations, ovs):
    wanted = station(interface, fill_checksums=True)
    converge(stations, wanted)
    device = wanted.device
    assert device.startswith(("tap", "ns-"))
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
    assert interface.held() == {wanted.port}
    assert f'iface-id="{wanted.port}"' in ovs.vsctl("list", "Interface")
    assert plan(stations, wanted) == ()


def test_a_removed_station_leaves_nothing(interface, stations):
    wanted = station(interface)
    converge(stations, wanted)
    assert stations.namespaces("qdhcp-") == {wanted.netns}
    remove(stations, wanted)
    assert stations.namespaces("qdhcp-") == frozenset()
    assert interface.held() == frozenset()
    assert remove(stations, wanted) == []
    with Network() as home:
        assert not [name for name in home.links() if name.startswith(("tap", "ns-"))]


def test_a_station_of_an_unknown_port_is_removed_with_its_port(interface, stations):
    wanted = station(interface)
    converge(stations, wanted)
    for stage in plan_removal(OWNER, stations.observe(wanted.netns)):
        stations.apply(stage)
    assert interface.held() == frozenset()
    assert not netns.exists(wanted.netns)


FIRST = {"fill_checksums": True}
SECOND = {
    "addresses": interfaces("10.0.0.3/16", "169.254.169.254/32", "fd00::2/48"),
    "gateways": addresses("192.0.2.1", "2001:db8::1"),
    "mtu": 1400,
    "mac": "fa:16:3e:00:00:02",
}


def with_every_crash(before, act, check) -> None:
    """Die after the first stage, then after the second and so on; *check* what comes of it."""
    after = 1
    while True:
        before()
        left = after

        def checkpoint(_stage):
            nonlocal left
            left -= 1
            if not left:
                raise Died

        try:
            act(checkpoint)
        except Died:
            check()
            after += 1
        else:
            assert after > 1
            check()
            return


def test_whoever_dies_after_any_stage_is_put_right_by_the_next_plan(interface):
    wanted = station(interface, **FIRST)
    reference = None

    def anew():
        remove(Stations(interface), wanted)

    def check():
        nonlocal reference
        converge(Stations(interface), wanted)
        assert plan(Stations(interface), wanted) == ()
        reference = reference or seen(wanted.netns)
        assert seen(wanted.netns) == reference

    with_every_crash(anew, lambda point: converge(Stations(interface), wanted, point), check)


def test_whoever_dies_on_the_way_to_another_station_arrives_there(interface):
    first = station(interface, **FIRST)
    second = evolve(first, **SECOND, fill_checksums=False)
    stations = Stations(interface)
    reference = None

    def check():
        nonlocal reference
        converge(stations, second)
        assert plan(stations, second) == ()
        reference = reference or seen(second.netns)
        assert seen(second.netns) == reference

    with_every_crash(
        lambda: converge(stations, first), lambda point: converge(stations, second, point), check
    )


def test_whoever_dies_while_removing_is_finished_by_the_next_plan(interface):
    wanted = station(interface)
    stations = Stations(interface)

    def act(checkpoint):
        for stage in plan_removal(OWNER, stations.observe(wanted.netns), wanted.port):
            stations.apply(stage)
            checkpoint(stage)

    def check():
        act(lambda stage: None)
        assert plan_removal(OWNER, stations.observe(wanted.netns), wanted.port) == ()
        assert not netns.exists(wanted.netns)
        assert interface.held() == frozenset()

    with_every_crash(lambda: converge(stations, wanted), act, check)


DRIFTS = [
    "ip link set {device} down",
    "ip link set {device} mtu 1300",
    "ip link set {device} address fa:16:3e:99:99:99",
    "ip link set lo down",
    "ip address delete 10.0.0.2/24 dev {device}",
    "ip address delete fd00::2/64 dev {device}",
    "ip address flush dev {device}",
    "ip -6 address delete fe80::f816:3eff:fe00:1/64 dev {device}",
    "sysctl -w net/ipv6/conf/{device}/addr_gen_mode=1",
    "ip address add 10.0.9.9/24 dev {device}",
    "ip address add fd09::9/64 dev {device}",
    "ip address replace 10.0.0.2/24 dev {device} valid_lft 600 preferred_lft 600",
    "ip route delete default",
    "ip -6 route delete default",
    "ip route replace default via 10.0.0.9",
    "ip -6 route replace default via fd00::9 metric 1024",
    "ip -6 route add default via fd00::9 metric 77",
    "ip route add 192.0.2.9/32 dev {device}",
    "sysctl -w net.ipv4.conf.all.promote_secondaries=0",
    "sysctl -w net/ipv6/conf/{device}/accept_ra=1",
    "sysctl -w net/ipv6/conf/{device}/disable_ipv6=1",
    "iptables -t mangle -F",
    "iptables -t mangle -D POSTROUTING -j station-checksums",
    "iptables -t mangle -A station-checksums -j ACCEPT",
    "ip link delete {device}",
]


@pytest.mark.spec("DHCP-23", "DHCP-24", "DHCP-25", "DHCP-26", "DHCP-27")
def test_what_somebody_changes_is_put_right(interface, stations):
    wanted = station(interface, fill_checksums=True)
    converge(stations, wanted)
    good = seen(wanted.netns)
    for drift in DRIFTS:
        in_netns(wanted.netns, drift.format(device=wanted.device))
        assert converge(stations, wanted), drift
        assert plan(stations, wanted) == (), drift
        awaited(lambda: seen(wanted.netns), good)


def test_a_namespace_that_somebody_deleted_is_made_again(interface, stations):
    wanted = station(interface)
    converge(stations, wanted)
    netns.delete(wanted.netns)
    converge(stations, wanted)
    assert plan(stations, wanted) == ()
    assert seen(wanted.netns)["links"].keys() == {"lo", wanted.device}


def test_a_port_whose_namespace_somebody_deleted_is_removed(interface, stations):
    wanted = station(interface)
    converge(stations, wanted)
    netns.delete(wanted.netns)
    assert remove(stations, wanted) == [f"interface: unplug port {wanted.port}"]
    assert interface.held() == frozenset()


def test_a_port_whose_device_somebody_deleted_is_removed(interface, stations):
    wanted = station(interface)
    converge(stations, wanted)
    in_netns(wanted.netns, f"ip link delete {wanted.device}")
    remove(stations, wanted)
    assert interface.held() == frozenset()
    assert remove(stations, wanted) == []


@pytest.mark.spec("DHCP-23")
def test_a_device_that_is_there_is_used_without_asking_the_interface_driver(
    interface, stations, ovsdb
):
    wanted = station(interface)
    converge(stations, wanted)
    index = ip(wanted.netns, "link", "show", wanted.device)[0]["ifindex"]
    in_netns(wanted.netns, f"ip link set {wanted.device} down")
    helpless = Stations(OvsInterfaceDriver(ovsdb, "br-none"))
    converge(helpless, evolve(wanted, addresses=interfaces("10.0.0.7/24")))
    (link,) = ip(wanted.netns, "link", "show", wanted.device)
    assert link["ifindex"] == index
    assert "UP" in link["flags"]


@pytest.mark.spec("DHCP-23")
def test_a_device_of_somebody_else_is_used_when_it_is_the_right_one(interface, stations):
    """As after an upgrade from what served the network before."""
    wanted = station(interface)
    netns.ensure(wanted.netns)
    with Network() as home, Network(wanted.netns) as network:
        home.apply([AddVeth(name="theirs", peer=wanted.device, peer_namespace=wanted.netns)])
        network.apply([SetMac(wanted.device, wanted.mac), SetMtu(wanted.device, wanted.mtu)])
    stages = lines(plan(stations, wanted))
    assert not [line for line in stages if line.startswith("interface")]
    converge(stations, wanted)
    assert plan(stations, wanted) == ()
    assert interface.held() == frozenset()


@pytest.mark.spec("DHCP-23")
def test_a_device_in_the_wrong_namespace_is_moved(interface, stations):
    wanted = station(interface)
    netns.ensure("elsewhere")
    attachment = evolve(wanted.attachment, netns="elsewhere")
    assert interface.converge(Update(put={wanted.port: attachment})).ok
    converge(stations, wanted)
    assert plan(stations, wanted) == ()
    assert [link["ifname"] for link in ip("elsewhere", "link", "show")] == ["lo"]


@pytest.mark.spec("DHCP-23")
def test_without_a_bridge_the_owner_is_told_what_to_do(interface, ovsdb):
    wanted = station(interface)
    stations = Stations(OvsInterfaceDriver(ovsdb, "br-none"))
    with pytest.raises(OperationRefused, match="ovs-vsctl add-br br-none") as refused:
        converge(stations, wanted)
    (operation,) = refused.value.reasons
    assert (operation.owners, operation.backend) == ({OWNER}, "interface")
    assert converge(Stations(interface), wanted), "with the bridge it goes on from there"
    assert plan(stations, wanted) == ()


def test_a_name_that_another_port_has_is_a_refusal_that_says_so(interface, stations):
    wanted = station(interface)
    netns.ensure(wanted.netns)
    taken = Attachment(device=wanted.device, mac="fa:16:3e:00:00:09", netns=wanted.netns)
    other = PortId(uuid4())
    assert interface.converge(Update(put={other: taken})).ok
    with pytest.raises(OperationRefused, match=wanted.device):
        converge(stations, wanted)
    assert interface.held() == {other}


def test_what_needs_no_switch_is_done_while_its_database_is_away(ovs, ovsdb):
    ovs.add_bridge("br-int")
    patient = OvsInterfaceDriver(ovsdb)
    there, new = station(patient, 1), station(patient, 2)
    converge(Stations(patient), there)
    with Ovsdb(ovs.remote, timeout=0.5) as hasty:
        stations = Stations(OvsInterfaceDriver(hasty))
        ovs.stop_database()
        moved = evolve(there, addresses=interfaces("10.0.0.9/24"))
        converge(stations, moved)
        assert plan(stations, moved) == ()
        with pytest.raises(BackendUnavailable):
            converge(stations, new)
    ovs.start_database()
    converge(Stations(patient), new)
    assert plan(Stations(patient), new) == ()


@pytest.mark.spec("DHCP-23")
def test_a_station_lives_on_when_its_switch_was_restarted(interface, stations, ovs):
    wanted = station(interface)
    converge(stations, wanted)
    ovs.kill_switch()
    ovs.start_switch()
    converge(stations, wanted)
    assert plan(stations, wanted) == ()
    assert stations.observe(wanted.netns).links[wanted.device].carrier
    in_use = ovs.vsctl("get", "Interface", wanted.device.replace("ns-", "tap"), "ofport")
    assert int(in_use) > 0


@pytest.mark.spec("DHCP-28")
def test_devices_that_do_not_belong_there_are_unplugged(interface, stations):
    old = station(interface)
    converge(stations, old)
    odd = PortId(uuid4())
    at = Attachment(device="odd-name", mac="fa:16:3e:00:00:08", netns=old.netns)
    assert interface.converge(Update(put={odd: at})).ok
    with Network() as home:
        home.apply([AddVeth(name="theirs", peer="stray", peer_namespace=old.netns)])
    port = PortId(uuid4())
    new = evolve(old, port=port, device=interface.device_name(port), mac="fa:16:3e:00:00:07")
    converge(stations, new)
    assert plan(stations, new) == ()
    assert seen(new.netns)["links"].keys() == {"lo", new.device}
    assert interface.held() == {port}
    with Network() as home:
        assert home.link("theirs") is None


def test_many_stations_are_made_changed_and_removed_at_once(interface, stations):
    wanted = [station(interface, number, fill_checksums=True) for number in range(1, 17)]
    changed = [evolve(each, **(SECOND | {"mac": each.mac})) for each in wanted]
    with ThreadPoolExecutor(8) as crew:
        list(crew.map(lambda each: converge(stations, each), wanted))
        assert [plan(stations, each) for each in wanted] == [()] * len(wanted)
        list(crew.map(lambda each: converge(stations, each), changed))
        assert [plan(stations, each) for each in changed] == [()] * len(wanted)
        assert interface.held() == {each.port for each in wanted}
        list(crew.map(lambda each: remove(stations, each), wanted))
    assert stations.namespaces("qdhcp-") == frozenset()
    assert interface.held() == frozenset()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("netns-")]


def test_a_refused_stage_names_whom_to_blame(interface, stations):
    wanted = station(interface)
    stages = plan_station("somebody", wanted, stations.observe(wanted.netns))
    addressing = next(stage for stage in stages if "ip address" in str(stage.operations[0]))
    with pytest.raises(OperationRefused, match="there is no network namespace") as refused:
        stations.apply(addressing)
    assert [operation.owners for operation in refused.value.reasons] == [{"somebody"}]
