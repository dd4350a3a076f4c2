"""Stations whose driver dies, and that somebody else changes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from attrs import evolve

from netfw.linux import netns
from netfw.linux.process import ProcessKey, Program, Supervisor
from netfw.linux.service_netns import ServiceNetnsExecutor, plan_removal
from tests.lab.linux.service_netns.samples import (
    OWNER,
    addresses,
    awaited,
    converge,
    in_netns,
    interfaces,
    plan,
    remove,
    seen,
    station,
)


class Died(Exception):
    """Raised at a checkpoint, in place of a crash."""


FIRST = {"fill_checksums": True}
SECOND = {
    "addresses": interfaces("10.0.0.3/16", "169.254.169.254/32", "fd00::2/48"),
    "gateways": addresses("192.0.2.1", "2001:db8::1"),
    "mtu": 1400,
    "mac": "fa:16:3e:00:00:02",
}


def with_every_crash(before, act, check) -> None:
    """Crash *act* after the first stage, then after the second and so on; run *check* each time."""
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


def test_crash_after_any_stage_is_repaired_by_the_next_plan(interface):
    wanted = station(interface, **FIRST)
    reference = None

    def clean():
        remove(ServiceNetnsExecutor(interface), wanted)

    def check():
        nonlocal reference
        converge(ServiceNetnsExecutor(interface), wanted)
        assert plan(ServiceNetnsExecutor(interface), wanted) == ()
        reference = reference or seen(wanted.netns)
        assert seen(wanted.netns) == reference

    with_every_crash(
        clean, lambda point: converge(ServiceNetnsExecutor(interface), wanted, point), check
    )


def test_crash_during_a_change_is_repaired_by_the_next_plan(interface):
    first = station(interface, **FIRST)
    second = evolve(first, **SECOND, fill_checksums=False)
    stations = ServiceNetnsExecutor(interface)
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


def test_crash_during_removal_is_finished_by_the_next_plan(interface):
    wanted = station(interface)
    stations = ServiceNetnsExecutor(interface)

    def act(checkpoint):
        for stage in plan_removal(OWNER, stations.observe(wanted.netns), wanted.port):
            stations.apply(stage)
            checkpoint(stage)

    def check():
        act(lambda stage: None)
        assert plan_removal(OWNER, stations.observe(wanted.netns), wanted.port) == ()
        assert not netns.exists(wanted.netns)
        assert interface.present() == frozenset()

    with_every_crash(lambda: converge(stations, wanted), act, check)


DRIFTS = [
    "ip link set {device} down",
    "ip link set {device} mtu 1300",
    "ip link set {device} address fa:16:3e:99:99:99",
    "ip link set lo down",
    "ip route delete 10.0.0.0/24",
    "ip route flush table main",
    "ip -6 route flush table main",
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
def test_each_drift_of_a_service_namespace_is_repaired(interface, stations):
    wanted = station(interface, fill_checksums=True)
    converge(stations, wanted)
    good = seen(wanted.netns)
    for drift in DRIFTS:
        in_netns(wanted.netns, drift.format(device=wanted.device))
        assert converge(stations, wanted), drift
        assert plan(stations, wanted) == (), drift
        awaited(lambda: seen(wanted.netns), good)


def test_deleted_namespace_is_created_again(interface, stations):
    wanted = station(interface)
    converge(stations, wanted)
    netns.delete(wanted.netns)
    converge(stations, wanted)
    assert plan(stations, wanted) == ()
    assert seen(wanted.netns)["links"].keys() == {"lo", wanted.device}


def test_port_with_a_deleted_namespace_is_removed(interface, stations):
    wanted = station(interface)
    converge(stations, wanted)
    netns.delete(wanted.netns)
    assert remove(stations, wanted) == [f"interface: unplug port {wanted.port}"]
    assert interface.present() == frozenset()


def test_port_with_a_deleted_device_is_removed(interface, stations):
    wanted = station(interface)
    converge(stations, wanted)
    in_netns(wanted.netns, f"ip link delete {wanted.device}")
    remove(stations, wanted)
    assert interface.present() == frozenset()
    assert remove(stations, wanted) == []


def test_processes_of_a_lost_supervisor_end_with_their_namespace_and_no_others(
    interface, stations, tmp_path
):
    wanted = station(interface)
    stations.make(wanted)
    sleeper = Program(argv=("sleep", "1000"), namespace=wanted.netns)
    with Supervisor(tmp_path / "lost", lambda event: None) as supervisor:
        lost = supervisor.start(ProcessKey("sleeper", "lost"), sleeper).pid
        outside = supervisor.start(
            ProcessKey("sleeper", "outside"), Program(argv=("sleep", "1000"))
        ).pid
    shutil.rmtree(tmp_path / "lost")
    foreign = subprocess.Popen(["ip", "netns", "exec", wanted.netns, "sleep", "1000"])
    try:
        stations.remove(wanted.netns, wanted.port)
        assert not alive(lost)
        assert alive(outside)
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()
        os.kill(outside, signal.SIGKILL)


def alive(pid):
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_device_with_a_name_that_netfw_does_not_allow_is_no_obstacle(interface):
    wanted = station(interface)
    stations = ServiceNetnsExecutor(interface)
    converge(stations, wanted)
    argv = ["ip", "netns", "exec", wanted.netns, "ip", "link", "add", b"caf\xe9", "type", "bridge"]
    subprocess.run(argv, check=True)
    assert stations.observe(wanted.netns).exists
    converge(stations, wanted)
    assert plan(stations, wanted) == ()
