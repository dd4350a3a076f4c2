"""A guard tells of stations that somebody else changed, once, and of nothing else."""

from __future__ import annotations

import queue
import subprocess
import threading

import pytest
from attrs import evolve

from netfw.errors import BackendUnavailable, NotFound
from netfw.linux.service_netns import DriftMonitor, ServiceNetns, ServiceNetnsExecutor
from netfw.plan import Stage
from netfw.testing.lab.wait import wait_until
from netfw_drivers.ovs.interface.driver import OvsInterfaceDriver
from tests.descriptor_limit import few_descriptors
from tests.lab.linux.service_netns.samples import (
    awaited,
    converge,
    lacks_link_local,
    remove,
    station,
)

HARMS = (
    "ip -n {netns} link delete {device}",
    "ip -n {netns} link set {device} down",
    "ip -n {netns} link set {device} mtu 1400",
    "ip -n {netns} address flush dev {device}",
    "ip -n {netns} address add 192.0.2.1/24 dev {device}",
    "ip -n {netns} route delete default",
    "ip -n {netns} -6 route delete default",
    "ip -n {netns} link add extra type bridge",
    "ip netns exec {netns} iptables -t mangle -F",
    "ip netns delete {netns}",
)
Reports = queue.Queue[str]


def make(stations: ServiceNetnsExecutor, wanted: ServiceNetns) -> None:
    """Make it, and wait until the kernel has done its part: before, it is not as it should be."""
    converge(stations, wanted)
    awaited(lambda: lacks_link_local(wanted.netns), [])


def assert_silent(reports: Reports) -> None:
    with pytest.raises(queue.Empty):
        reports.get(timeout=0.5)


def test_each_drift_of_a_service_namespace_is_reported_once(
    stations: ServiceNetnsExecutor, interface: OvsInterfaceDriver
) -> None:
    wanted, other = evolve(station(interface, 1), fill_checksums=True), station(interface, 2)
    reports: Reports = queue.Queue()
    guard = DriftMonitor(stations, reports.put)
    for each in (wanted, other):
        make(stations, each)
        guard.watch(each)
    for harm in HARMS:
        assert reports.empty()
        command = harm.format(netns=wanted.netns, device=wanted.device)
        subprocess.run(command, shell=True, check=True)
        assert reports.get(timeout=60) == wanted.netns, command
        make(stations, wanted)
        assert reports.empty()
        guard.watch(wanted)
    assert_silent(reports)
    guard.close()


def test_consistent_or_unwatched_namespace_is_not_reported(
    stations: ServiceNetnsExecutor, interface: OvsInterfaceDriver
) -> None:
    wanted, other = station(interface, 1), station(interface, 2)
    reports: Reports = queue.Queue()
    guard = DriftMonitor(stations, reports.put)
    with pytest.raises(NotFound):
        guard.watch(wanted)
    for each in (wanted, other):
        make(stations, each)
        guard.watch(each)
    subprocess.run(
        f"ip -n {wanted.netns} address add 192.0.2.1/24 dev {wanted.device} && "
        f"ip -n {wanted.netns} address delete 192.0.2.1/24 dev {wanted.device}",
        shell=True,
        check=True,
    )
    with guard.held([other.netns]):
        remove(stations, other)
    assert_silent(reports)
    guard.close()
    remove(stations, wanted)
    assert_silent(reports)


def test_drift_between_observation_and_watch_is_reported(
    stations: ServiceNetnsExecutor, interface: OvsInterfaceDriver
) -> None:
    wanted = station(interface, 1)
    reports: Reports = queue.Queue()
    guard = DriftMonitor(stations, reports.put)
    make(stations, wanted)
    guard.watch(wanted)
    with guard.held([wanted.netns]) as former:
        assert former == (wanted,)
        assert not stations.plan(wanted)
        subprocess.run(f"ip -n {wanted.netns} route delete default", shell=True, check=True)
        assert_silent(reports)
        guard.watch(wanted)
    assert reports.get(timeout=60) == wanted.netns
    guard.close()


def test_drift_between_observation_and_first_watch_is_reported(
    stations: ServiceNetnsExecutor, interface: OvsInterfaceDriver
) -> None:
    wanted, absent = station(interface, 1), station(interface, 2)
    reports: Reports = queue.Queue()
    guard = DriftMonitor(stations, reports.put)
    make(stations, wanted)
    with guard.held([wanted.netns, absent.netns], watch=True) as former:
        assert former == ()
        assert not stations.plan(wanted)
        subprocess.run(f"ip -n {wanted.netns} route delete default", shell=True, check=True)
        assert_silent(reports)
        guard.watch(wanted)
    assert reports.get(timeout=60) == wanted.netns
    guard.close()


class BlockingPlanner:
    """Returns the first plan with operations only when it is released."""

    def __init__(self, stations: ServiceNetnsExecutor) -> None:
        self._stations = stations
        self.planned, self.released = threading.Event(), threading.Event()

    def plan(self, wanted: ServiceNetns) -> tuple[Stage, ...]:
        stages = self._stations.plan(wanted)
        if stages:
            self.planned.set()
            assert self.released.wait(60)
        return stages


@pytest.mark.parametrize("is_held", [True, False], ids=["during", "after"])
def test_drift_that_is_found_while_a_part_is_changed_is_reported_afterwards(
    stations: ServiceNetnsExecutor, interface: OvsInterfaceDriver, is_held: bool
) -> None:
    wanted = station(interface, 1)
    reports: Reports = queue.Queue()
    planner = BlockingPlanner(stations)
    guard = DriftMonitor(planner, reports.put)
    make(stations, wanted)
    guard.watch(wanted)
    subprocess.run(f"ip -n {wanted.netns} route delete default", shell=True, check=True)
    assert planner.planned.wait(60)
    with guard.held([wanted.netns]):
        if is_held:
            planner.released.set()
            assert_silent(reports)
        guard.watch(evolve(wanted))
    planner.released.set()
    assert reports.get(timeout=60) == wanted.netns
    guard.close()


class Planner:
    """Fails to compare one namespace."""

    def __init__(self, stations: ServiceNetnsExecutor, failing: str) -> None:
        self._stations, self._failing = stations, failing

    def plan(self, wanted: ServiceNetns) -> tuple[Stage, ...]:
        if wanted.netns == self._failing:
            raise ValueError("not comparable")
        return self._stations.plan(wanted)


def test_a_namespace_that_cannot_be_compared_concerns_no_other(
    stations: ServiceNetnsExecutor, interface: OvsInterfaceDriver, caplog: pytest.LogCaptureFixture
) -> None:
    failing, other = station(interface, 1), station(interface, 2)
    reports: Reports = queue.Queue()
    guard = DriftMonitor(Planner(stations, failing.netns), reports.put)
    for each in (failing, other):
        make(stations, each)
        guard.watch(each)
    for each in (failing, other):
        subprocess.run(f"ip -n {each.netns} route delete default", shell=True, check=True)
        wait_until(lambda: "not comparable" in caplog.text, seconds=30)
    assert reports.get(timeout=60) == other.netns
    guard.close()


class RecordingPlanner:
    """Records the outages that the executor meets."""

    def __init__(self, stations: ServiceNetnsExecutor) -> None:
        self._stations = stations
        self.outages: Reports = queue.Queue()

    def plan(self, wanted: ServiceNetns) -> tuple[Stage, ...]:
        try:
            return self._stations.plan(wanted)
        except BackendUnavailable:
            self.outages.put(wanted.netns)
            raise


def test_drift_while_nothing_can_be_observed_is_reported_afterwards(
    stations: ServiceNetnsExecutor, interface: OvsInterfaceDriver
) -> None:
    wanted = station(interface, 1)
    reports: Reports = queue.Queue()
    planner = RecordingPlanner(stations)
    guard = DriftMonitor(planner, reports.put)
    make(stations, wanted)
    guard.watch(wanted)
    harm = f"read line; ip -n {wanted.netns} route delete default"
    with subprocess.Popen(["sh", "-c", harm], stdin=subprocess.PIPE) as shell:
        assert shell.stdin is not None
        with few_descriptors(0):
            shell.stdin.write(b"now\n")
            shell.stdin.close()
            for _ in range(2):
                assert planner.outages.get(timeout=60) == wanted.netns
            assert reports.empty()
    assert reports.get(timeout=60) == wanted.netns
    guard.close()
