"""In which of many namespaces something changed is reported, whatever it was."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest

from netfw.errors import NotFound
from netfw.linux import netns
from netfw.linux.ip import sysctl
from netfw.linux.ip.multi_netns_monitor import MultiNetnsMonitor
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import (
    AddAddress,
    AddLink,
    AddRoute,
    AddRule,
    DelAddress,
    DelLink,
    DelRoute,
    DelRule,
    NetworkOperation,
    SetUp,
)
from netfw.linux.ip.values import IpRule, addresses, route
from netfw.testing.lab.wait import wait_until

Reports = queue.Queue[frozenset[str]]
ADDRESS = addresses("br0", ["10.0.0.2/24"])[0]
ADDRESS6 = addresses("br0", ["fd00::2/64"])[0]
ROUTE = route("10.9.0.0/16", via="10.0.0.1", device="br0")
ROUTE6 = route("fd09::/64", via="fd00::1", device="br0")
RULE = IpRule(priority=100, source="10.0.0.0/24", table=16)
RULE6 = IpRule(priority=100, source="fd00::/64", table=16)
NOTHING_BY_ITSELF = {
    "net.ipv6.conf.default.addr_gen_mode": "1",
    "net.ipv6.conf.default.accept_dad": "0",
}
"""The kernel makes no address of its own, and has nothing to say a second later of any."""


@pytest.fixture
def reports() -> Reports:
    return queue.Queue()


@pytest.fixture
def monitor(reports: Reports) -> Iterator[MultiNetnsMonitor]:
    made = MultiNetnsMonitor(reports.put, debounce=0.05)
    yield made
    made.close()


def change(namespace: str, *operations: NetworkOperation) -> None:
    with NetlinkClient(namespace) as network:
        network.apply(operations)


def silence(reports: Reports) -> bool:
    """Drop reports until none comes for a moment, and return true."""
    while True:
        try:
            reports.get(timeout=0.3)
        except queue.Empty:
            return True


def test_change_in_a_watched_namespace_is_reported(monitor: MultiNetnsMonitor, reports: Reports):
    netns.create("blue")
    for name in ("green", "red"):
        netns.create(name)
        sysctl.converge(NOTHING_BY_ITSELF, name)
        change(name, AddLink("br0", "bridge"), SetUp("br0"))
    monitor.watch("blue")
    monitor.watch("green")
    for operation in (
        AddAddress(ADDRESS),
        AddAddress(ADDRESS6),
        AddRoute(ROUTE),
        AddRoute(ROUTE6),
        AddRule(RULE),
        AddRule(RULE6),
        DelRule(RULE),
        DelRule(RULE6),
        DelRoute(ROUTE),
        DelRoute(ROUTE6),
        DelAddress(ADDRESS),
        DelAddress(ADDRESS6),
        DelLink("br0"),
    ):
        assert silence(reports)
        change("red", operation)
        change("green", operation)
        assert reports.get(timeout=60) == {"green"}
    monitor.unwatch("green")
    assert silence(reports)
    change("green", AddLink("br0", "bridge"))
    change("blue", AddLink("br0", "bridge"))
    assert reports.get(timeout=60) == {"blue"}


@pytest.mark.parametrize("tool", ["iptables-nft", "ip6tables-nft"])
def test_changed_rules_of_a_watched_namespace_are_reported(
    monitor: MultiNetnsMonitor, reports: Reports, tool: str
):
    for name in ("green", "red"):
        netns.create(name)
    monitor.watch("green")
    for change in ("-A FORWARD -j ACCEPT", "-D FORWARD -j ACCEPT"):
        assert silence(reports)
        for name in ("red", "green"):
            subprocess.run(["ip", "netns", "exec", name, tool, *change.split()], check=True)
        assert reports.get(timeout=60) == {"green"}


def test_many_changes_are_reported_together(reports: Reports):
    names = {f"n{number}" for number in range(5)}
    monitor = MultiNetnsMonitor(reports.put, debounce=1.0)
    for name in names:
        netns.create(name)
        monitor.watch(name)
    for name in names:
        change(name, AddLink("br0", "bridge"), SetUp("br0"), AddAddress(ADDRESS))
    heard = reports.get(timeout=60)
    while heard < names:
        heard |= reports.get(timeout=60)
    assert heard == names
    monitor.close()


@pytest.mark.parametrize(
    "how",
    [
        "ip netns delete blue",
        "umount /run/netns/blue",
        "ip netns delete blue; ip netns add blue",
    ],
)
def test_name_that_refers_to_another_namespace_is_reported(
    monitor: MultiNetnsMonitor, reports: Reports, how: str
):
    netns.create("blue")
    with netns.worker("blue"):  # somebody is in there, so that the kernel says nothing by itself
        monitor.watch("blue")
        subprocess.run(how, shell=True, check=True)
        assert reports.get(timeout=60) == {"blue"}


def test_recreated_namespace_with_the_inode_of_the_old_one_is_reported(reports: Reports):
    begun, remade = threading.Event(), threading.Event()

    def report(names: frozenset[str]) -> None:
        begun.set()
        assert remade.wait(60)
        reports.put(names)

    monitor = MultiNetnsMonitor(report, debounce=0.0)
    for name in ("blue", "green"):
        netns.create(name)
        monitor.watch(name)
    old = netns.identity("blue")
    change("green", AddLink("br0", "bridge"))
    assert begun.wait(60)

    for _ in range(10):  # where nobody else makes namespaces, the first has the number again
        netns.delete("blue")
        time.sleep(0.2)  # the kernel takes its time to be rid of it
        netns.create("blue")
        if netns.identity("blue") == old:
            break
    remade.set()
    while "blue" not in reports.get(timeout=60):
        pass
    monitor.close()


def test_a_namespace_that_was_made_anew_is_watched_again(
    monitor: MultiNetnsMonitor, reports: Reports
):
    netns.create("blue")
    monitor.watch("blue")
    netns.delete("blue")
    netns.create("blue")
    monitor.watch("blue")
    assert silence(reports)
    change("blue", AddLink("br0", "bridge"))
    assert reports.get(timeout=60) == {"blue"}


def test_no_namespace_is_kept_alive(monitor: MultiNetnsMonitor):
    netns.create("blue")
    subprocess.run("ip link add far type veth peer name near netns blue", shell=True, check=True)
    monitor.watch("blue")
    netns.delete("blue")
    with NetlinkClient(None) as own:
        wait_until(lambda: "far" not in own.links(), "it goes with its other end")


def test_where_announcements_were_lost_all_are_named(reports: Reports):
    flooded, begun = threading.Event(), threading.Event()

    def report(names: frozenset[str]) -> None:
        begun.set()
        assert flooded.wait(60)
        reports.put(names)

    monitor = MultiNetnsMonitor(report, debounce=0.0, buffer_size=1 << 12)
    for name in ("blue", "green"):
        netns.create(name)
        monitor.watch(name)
    change("blue", AddLink("br0", "bridge"), SetUp("br0"))
    assert begun.wait(60)
    some = addresses("br0", [f"10.0.0.{number}/24" for number in range(1, 250)])
    change("blue", *map(AddAddress, some))
    flooded.set()
    while reports.get(timeout=60) != {"blue", "green"}:
        pass
    monitor.close()


def test_it_leaves_no_thread_and_no_descriptor_and_closes_twice():
    def state() -> tuple[int, int]:
        return threading.active_count(), len(os.listdir("/proc/self/fd"))

    before = state()
    for _ in range(10):
        monitor = MultiNetnsMonitor(lambda _names: None)
        with pytest.raises(NotFound):
            monitor.watch("nowhere")
        monitor.close()
        monitor.close()
    assert state() == before
