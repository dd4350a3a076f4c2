"""Hosts that are machines of their own, and a fabric between them."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from netfw.errors import ConfigError, Conflict, NotFound
from netfw.linux import netns
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import InstanceDevice
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.namespaces import CommandFailed
from netfw.testing.lab.ping import BackgroundPing, BackgroundPings, Pinger
from netfw.testing.lab.wait import TIMEOUT, wait_until
from netfw.testing.plugin import MakeLab
from tests.lab.testing.lab.plugs import plug

pytestmark = pytest.mark.spec("DRV-32")


def tunnel(host: Host, remote: str, bridge: str = "br-int") -> None:
    options = [f"options:remote_ip={remote}", "options:key=7"]
    name = f"vx-{host.name}"
    host.ovs.vsctl("add-port", bridge, name, "--", "set", "Interface", name, "type=vxlan", *options)


def test_hosts_reach_each_other_by_both_address_families(lab: Lab) -> None:
    one, two = lab.hosts.values()
    for address in (two.address.ip, two.address6.ip):
        assert one.attempt(["ping", "-c1", "-W20", str(address)]).status == 0


def test_every_host_is_called_by_its_name(lab: Lab) -> None:
    assert {host.call(socket.gethostname) for host in lab.hosts.values()} == {"host1", "host2"}
    assert socket.gethostname() not in lab.hosts


def test_two_hosts_have_namespaces_of_one_name(lab: Lab) -> None:
    one, two = lab.hosts.values()
    identities = set()
    for host in (one, two):
        host.run(["ip", "netns", "add", "qrouter-1"])
        identities.add(host.call(netns.identity, "qrouter-1"))
    assert len(identities) == 2
    assert not Path("/run/netns/qrouter-1").exists()


def test_a_namespace_made_by_the_toolbox_is_seen_by_ip_netns_on_that_host_alone(lab: Lab) -> None:
    one, two = lab.hosts.values()
    one.call(netns.create, "qdhcp-1")
    assert one.run(["ip", "netns", "list"]).split() == ["qdhcp-1"]
    assert two.run(["ip", "netns", "list"]) == ""


def test_sockets_of_a_host_have_one_path_within_and_without(lab: Lab) -> None:
    host = lab.hosts["host1"]
    path = host.ovs.remote.removeprefix("unix:")
    for connect in (_connects, lambda path: host.call(_connects, path)):
        assert connect(path)
    assert (
        host.run(["ovs-vsctl", "get", "Open_vSwitch", ".", "external_ids:system-id"]) == "host1\n"
    )


def _connects(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(path) == 0


def test_a_host_sees_its_own_devices_everywhere(lab: Lab) -> None:
    host = lab.hosts["host1"]
    by_netlink = {name for _, name in host.call(socket.if_nameindex)}
    assert by_netlink == set(host.call(os.listdir, "/sys/class/net"))
    assert {"lo", "eth0", "br-phy"} <= by_netlink


def test_a_function_on_a_host_leaves_the_caller_where_it_is(lab: Lab) -> None:
    here, directory = netns.identity(), os.getcwd()
    there = lab.hosts["host1"].call(netns.identity)
    assert there != here
    assert (netns.identity(), os.getcwd()) == (here, directory)
    assert lab.hosts["host1"].call(os.getcwd) == directory


def test_threads_and_processes_started_by_a_function_stay_on_the_host(lab: Lab) -> None:
    host = lab.hosts["host1"]

    def start_thread() -> list[netns.NamespaceIdentity]:
        found: list[netns.NamespaceIdentity] = []
        thread = threading.Thread(target=lambda: found.append(netns.identity()))
        thread.start()
        thread.join()
        return found

    assert host.call(start_thread) == [host.call(netns.identity)]
    assert host.run(["hostname"]) == "host1\n"


def test_what_a_function_raises_comes_out(lab: Lab) -> None:
    with pytest.raises(ZeroDivisionError):
        lab.hosts["host1"].call(lambda: 1 / 0)


def test_a_failed_command_says_what_it_was_and_what_it_said(lab: Lab) -> None:
    with pytest.raises(CommandFailed, match=r"ip link show nosuch: status 1: .*does not exist"):
        lab.hosts["host1"].run(["ip", "link", "show", "nosuch"])


def test_refused_line_of_a_batch_is_reported_alone(lab: Lab) -> None:
    with pytest.raises(CommandFailed, match=r"^ip link set nosuch up: status 1: Cannot find"):
        lab.hosts["host1"].namespaces.ip("link set lo up", "link set nosuch up", "link set lo up")


@pytest.mark.parametrize("kind", InstanceDevice)
def test_instances_on_one_host_talk_by_udp_and_tcp(make_lab: MakeLab, kind: InstanceDevice) -> None:
    host = make_lab(hosts=1, bridges=["br-int"]).hosts["host1"]
    begin = "qvo" if kind is InstanceDevice.HYBRID else "tap"
    one = host.instance("vm1", plug(1, kind=kind, device=f"{begin}1"))
    two = host.instance("vm2", plug(2, kind=kind, device=f"{begin}2"))
    for target in ("10.0.0.2", "fd00::2"):
        assert one.ping(target).lost == 0
        for transport in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            assert _echo(two, one, target, transport) == b"hello"


def _echo(server, client, address: str, transport: int) -> bytes:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with (
        server.call(socket.socket, family, transport) as listening,
        client.call(socket.socket, family, transport) as connecting,
    ):
        for end in (listening, connecting):
            end.settimeout(5)
        listening.bind((address, 4242))
        if transport == socket.SOCK_DGRAM:
            connecting.sendto(b"hello", (address, 4242))
            return listening.recv(100)
        listening.listen()
        connecting.connect((address, 4242))
        accepted, _ = listening.accept()
        with accepted:
            connecting.sendall(b"hello")
            return accepted.recv(100)


@pytest.mark.parametrize("family", ["address", "address6"])
def test_instances_talk_through_a_tunnel_between_hosts(make_lab: MakeLab, family: str) -> None:
    one, two = make_lab(bridges=["br-int"]).hosts.values()
    tunnel(one, str(getattr(two, family).ip))
    tunnel(two, str(getattr(one, family).ip))
    vm1 = one.instance("vm", plug(1))
    two.instance("vm", plug(2))
    assert _eventually(lambda: vm1.ping("10.0.0.2", count=1, timeout=0.5).lost == 0)
    # Eventually: plugging costs packets in tunnels, see docs/lab.md.
    assert _eventually(lambda: vm1.ping("fd00::2", count=20, interval=0.01).lost == 0)


def test_new_ipv6_address_is_usable_without_duplicate_detection(make_lab: MakeLab) -> None:
    # On a host it would cost tunnels packets a second or two after a device was plugged.
    host = make_lab(hosts=1, bridges=["br-int"]).hosts["host1"]
    instance = host.instance("vm1", plug(1))
    for place, devices in ((host, ("tap1", "br-phy", "eth0")), (instance, ("eth0",))):
        for device in devices:
            asked = ["sysctl", "-n", f"net.ipv6.conf.{device}.accept_dad"]
            assert place.run(asked).strip() == "0", device


def _eventually(condition, seconds: float = TIMEOUT) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
    return True


def test_an_instance_carries_what_a_compute_service_writes(make_lab: MakeLab) -> None:
    host = make_lab(hosts=1, bridges=["br-int"]).hosts["host1"]
    ids = {"iface-id": "0e1f", "attached-mac": "fa:16:3e:00:00:01"}
    instance = host.instance("vm", plug(1, external_ids=ids, tag=4095))
    assert host.ovs.vsctl("get", "Interface", "tap1", "external_ids:attached-mac") == (
        '"fa:16:3e:00:00:01"\n'
    )
    assert host.ovs.vsctl("get", "Port", "tap1", "tag") == "4095\n"
    assert "fa:16:3e:00:00:01" in instance.run(["ip", "link", "show", "eth0"])
    assert host.run(["ip", "netns", "exec", "vm", "ip", "-br", "addr"]).count("10.0.0.1/24") == 1


def test_an_instance_name_is_given_once(make_lab: MakeLab) -> None:
    host = make_lab(hosts=1).hosts["host1"]
    host.instance("vm")
    with pytest.raises(Conflict, match="host1 has an instance or namespace vm already"):
        host.instance("vm")
    host.run(["ip", "netns", "add", "foreign"])
    with pytest.raises(Conflict, match="foreign already"):
        host.instance("foreign")
    with pytest.raises(ConfigError, match="cannot be called"):
        host.instance("../vm")


def test_an_instance_is_a_namespace_that_ip_netns_can_delete(make_lab: MakeLab) -> None:
    host = make_lab(hosts=1).hosts["host1"]
    host.instance("vm")
    assert host.run(["ip", "netns"]) == "vm\n"
    host.run(["ip", "netns", "add", "other"])
    host.run(["ip", "netns", "del", "vm"])
    assert host.run(["ip", "netns"]) == "other\n"
    assert "/run/netns/vm" not in host.call(Path("/proc/thread-self/mountinfo").read_text)


def test_the_switch_says_by_which_devices_a_packet_leaves(make_lab: MakeLab) -> None:
    one, two = make_lab(bridges=["br-int", "br-tun"]).hosts.values()
    tunnel(one, str(two.address.ip), "br-tun")
    for bridge, peer in (("br-int", "br-tun"), ("br-tun", "br-int")):
        patch = ["type=patch", f"options:peer=to-{bridge}"]
        one.ovs.vsctl(
            "add-port", bridge, f"to-{peer}", "--", "set", "Interface", f"to-{peer}", *patch
        )
    for number in (1, 2, 3):
        one.instance(f"vm{number}", plug(number))
    packet = "dl_src=fa:16:3e:00:00:01,dl_dst=fa:16:3e:00:00:02"
    flows = one.ovs.management("br-int")
    one.ovs.ofctl(
        "add-flow", flows, "priority=9,in_port=tap1,dl_dst=fa:16:3e:00:00:02,actions=tap2,tap3"
    )
    one.ovs.ofctl("add-flow", flows, "priority=9,ip,in_port=tap2,actions=ct(table=1)")
    one.ovs.ofctl("add-flow", flows, "table=1,ip,ct_state=+new+trk,actions=tap3")
    one.ovs.ofctl("add-flow", flows, "priority=9,in_port=tap3,actions=drop")
    assert one.ovs.leaves_by("br-int", f"in_port=tap1,{packet}") == {"tap2", "tap3"}
    assert one.ovs.leaves_by("br-int", f"in_port=tap3,{packet}") == frozenset()
    assert one.ovs.leaves_by("br-int", "in_port=tap2,ip", "--ct-next", "new,trk") == {"tap3"}
    one.ovs.ofctl("add-flow", flows, "priority=10,in_port=tap3,actions=to-br-tun")
    one.ovs.ofctl("add-flow", one.ovs.management("br-tun"), "priority=9,actions=vx-host1")
    one.attempt(["ping", "-c1", "-W20", str(two.address.ip)])
    left = one.ovs.leaves_by("br-int", f"in_port=tap3,{packet}")
    assert {"vxlan_sys_4789", "eth0"} <= left
    assert "br-phy" not in left


@pytest.mark.parametrize("silently", [False, True])
def test_a_disconnected_host_is_cut_off_until_it_is_connected_again(
    lab: Lab, silently: bool
) -> None:
    one, two = lab.hosts.values()

    def reaches() -> bool:
        return one.attempt(["ping", "-c1", "-W1", str(two.address.ip)]).status == 0

    assert _eventually(reaches)
    lab.fabric.disconnect("host2", silently=silently)
    assert not lab.fabric.connected("host2")
    # The kernel handles the carrier a moment later.
    wait_until(lambda: ("NO-CARRIER" in two.run(["ip", "link", "show", "eth0"])) is not silently)
    assert not reaches()
    lab.fabric.connect("host2")
    assert lab.fabric.connected("host2")
    assert _eventually(reaches)


def test_the_fabric_knows_its_hosts(lab: Lab) -> None:
    with pytest.raises(NotFound, match=r"no host 'host9'.*host1.*host2"):
        lab.fabric.disconnect("host9")


def test_a_provider_network_joins_a_nic_of_every_host(make_lab: MakeLab) -> None:
    lab = make_lab(provider=["physnet1"])
    one, two = lab.hosts.values()
    one.namespaces.ip("addr add 203.0.113.1/24 dev physnet1", "link set physnet1 up")
    two.namespaces.ip("addr add 203.0.113.2/24 dev physnet1", "link set physnet1 up")
    lab.provider["physnet1"].namespaces.ip("addr add 203.0.113.254/24 dev fabric")
    for target in ("203.0.113.2", "203.0.113.254"):
        assert one.attempt(["ping", "-c1", "-W20", target]).status == 0


def test_a_host_survives_a_crash_of_its_switch(make_lab: MakeLab) -> None:
    one, two = make_lab(bridges=["br-int"]).hosts.values()

    def reaches(seconds: int) -> bool:
        ping = ["ping", "-c1", f"-W{seconds}", str(two.address6.ip)]
        return one.attempt(ping).status == 0

    one.ovs.kill_switch()
    assert not reaches(1)
    one.restart_switch()
    assert reaches(20)
    assert "br-int" in one.run(["ip", "-br", "link"])


def test_a_crashed_host_runs_nothing_until_it_is_revived(make_lab: MakeLab) -> None:
    one, two = make_lab(bridges=["br-int"]).hosts.values()
    one.spawn(["sleep", "1000"])
    one.crash()
    assert one.namespaces.processes() == frozenset()
    assert len(two.namespaces.processes()) == 2
    one.revive()
    assert one.attempt(["ping", "-c1", "-W20", str(two.address.ip)]).status == 0


def test_pinging_tells_loss_apart_from_what_is_under_way(make_lab: MakeLab) -> None:
    host = make_lab(hosts=1, bridges=["br-int"]).hosts["host1"]
    one, _ = host.instance("vm1", plug(1)), host.instance("vm2", plug(2))
    assert one.ping("10.0.0.2").lost == 0
    pinger = one.call(Pinger, "10.0.0.2", 0.002)
    background = BackgroundPing(pinger, TIMEOUT)
    wait_until(lambda: pinger.sent > 1)
    assert background.stop().lost == 0
    pinger = one.call(Pinger, "10.0.0.2", 0.01)
    background = BackgroundPing(pinger, 0.2)
    wait_until(lambda: pinger.answered)
    host.namespaces.ip("link set tap2 down")
    before = pinger.sent
    wait_until(lambda: pinger.sent > before + 1)
    host.namespaces.ip("link set tap2 up")
    assert _eventually(lambda: one.ping("10.0.0.2", count=1, timeout=0.2).lost == 0)
    broken = background.stop()
    assert 0 < broken.lost < broken.sent
    assert 0 < broken.outage <= broken.sent * 0.01


def test_pings_that_are_sent_together_are_counted_apart(make_lab: MakeLab) -> None:
    host = make_lab(hosts=1, bridges=["br-int"]).hosts["host1"]
    one, *_ = (host.instance(f"vm{number}", plug(number)) for number in (1, 2))
    addresses = "10.0.0.2", "10.9.9.9", "10.0.0.2"
    assert one.ping("10.0.0.2").lost == 0
    together = BackgroundPings([one.call(Pinger, each, 0.01) for each in addresses], 3)
    time.sleep(0.1)
    found = together.stop()
    assert len({each.sent for each in found}) == 1
    assert [each.lost for each in found] == [0, found[1].sent, 0]


def test_ping_to_nowhere_is_lost_and_not_an_error(make_lab: MakeLab) -> None:
    instance = make_lab(hosts=1, bridges=["br-int"]).hosts["host1"].instance("vm1", plug(1))
    ping = instance.ping("10.9.9.9", count=2, interval=0.01, timeout=0.05)
    assert (ping.sent, ping.received, ping.rtt) == (2, 0, None)
