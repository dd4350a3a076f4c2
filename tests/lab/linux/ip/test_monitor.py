"""Changes in a namespace are told, in order, or their loss is."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from netfw.drivers.events import FeedLost
from netfw.errors import NotFound
from netfw.linux import netns
from netfw.linux.ip.monitor import NetlinkEvent, NetlinkGroups, NetlinkMonitor
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import (
    AddAddress,
    AddLink,
    AddRoute,
    AddRule,
    DelAddress,
    DelLink,
    SetNeighbour,
    SetUp,
)
from netfw.linux.ip.values import FoundAddress, Link, Neighbour, Route, Rule, addresses, route
from netfw.model.address import Mac

Told = queue.Queue[NetlinkEvent | FeedLost]


def next_that(
    told: Told, fits: Callable[[NetlinkEvent | FeedLost], bool]
) -> NetlinkEvent | FeedLost:
    while True:
        event = told.get(timeout=10)
        if fits(event):
            return event


def test_links_addresses_and_routes_are_told_when_they_come_and_go():
    netns.create("blue")
    told: Told = queue.Queue()
    address = addresses("br0", ["10.0.0.2/24"])[0]
    away = route("10.9.0.0/16", via="10.0.0.1", device="br0")
    with NetlinkMonitor("blue", told.put), NetlinkClient("blue") as blue:
        blue.apply([AddLink("br0", "bridge"), SetUp("br0"), AddAddress(address), AddRoute(away)])
        new = next_that(told, lambda e: isinstance(e.value, Link) and e.value.name == "br0")
        assert new.gone is False
        up = next_that(told, lambda e: isinstance(e.value, Link) and e.value.up)
        assert up.value.kind == "bridge"
        came = next_that(told, lambda e: isinstance(e.value, FoundAddress))
        assert came.value.address.interface == address.interface
        routed = next_that(told, lambda e: isinstance(e.value, Route) and e.value.key == away.key)
        assert routed.value.hops == away.hops
        blue.apply([DelAddress(address)])
        left = next_that(told, lambda e: isinstance(e.value, FoundAddress) and e.gone)
        assert left.value.address.interface == address.interface
        blue.apply([AddAddress(address), DelLink("br0")])
        left = next_that(told, lambda e: isinstance(e.value, FoundAddress) and e.gone)
        assert left.value.address.device == "br0"
        gone = next_that(told, lambda e: isinstance(e.value, Link) and e.gone)
        assert gone.value.name == "br0"


def test_only_what_was_asked_for_is_told():
    netns.create("blue")
    told: Told = queue.Queue()
    entry = Neighbour(device="br0", address="10.0.0.5", mac=Mac("fa:16:3e:00:00:05"))
    rules = [Rule(priority=100, table=9), Rule(priority=101, version=6, table=9)]
    with (
        NetlinkMonitor("blue", told.put, NetlinkGroups.NEIGHBOURS | NetlinkGroups.RULES),
        NetlinkClient("blue") as blue,
    ):
        blue.apply([AddLink("br0", "bridge"), SetUp("br0"), SetNeighbour(entry)])
        blue.apply([AddRule(rule) for rule in rules])
        assert told.get(timeout=10) == NetlinkEvent(entry)
        assert told.get(timeout=10) == NetlinkEvent(rules[0])
        assert told.get(timeout=10) == NetlinkEvent(rules[1])
    assert told.empty()


def test_what_happens_after_a_loss_was_told_is_told_again():
    """While its queue is full the kernel drops without a word: it has to be emptied first."""
    netns.create("blue")
    told: Told = queue.Queue()
    flooded = threading.Event()

    with NetlinkClient("blue") as blue:

        def sink(event: NetlinkEvent | FeedLost) -> None:
            assert flooded.wait(60)
            told.put(event)
            if isinstance(event, FeedLost):
                blue.apply([AddLink("br1", "bridge")])

        with NetlinkMonitor("blue", sink, buffer_size=1 << 16):
            blue.apply([AddLink("br0", "bridge"), SetUp("br0")])
            blue.apply(
                [AddAddress(a) for a in addresses("br0", [f"10.0.0.{n}/24" for n in range(1, 250)])]
            )
            flooded.set()
            next_that(told, lambda event: isinstance(event, FeedLost))
            next_that(told, lambda e: isinstance(e.value, Link) and e.value.name == "br1")


def test_a_feed_leaves_no_thread_and_no_descriptor_and_closes_twice():
    netns.create("blue")

    def state() -> tuple[int, int]:
        return threading.active_count(), len(os.listdir("/proc/self/fd"))

    before = state()
    for _ in range(10):
        feed = NetlinkMonitor("blue", lambda _event: None)
        feed.close()
        feed.close()
        with pytest.raises(NotFound):
            NetlinkMonitor("nowhere", lambda _event: None)
    assert state() == before


def test_what_a_sink_raises_ends_the_feed_and_is_reported(monkeypatch):
    netns.create("blue")
    reported: queue.Queue[type[BaseException]] = queue.Queue()
    monkeypatch.setattr(threading, "excepthook", lambda told: reported.put(told.exc_type))

    def sink(_event: NetlinkEvent | FeedLost) -> None:
        raise ZeroDivisionError

    with NetlinkMonitor("blue", sink), NetlinkClient("blue") as blue:
        blue.apply([AddLink("br0", "bridge")])
        assert reported.get(timeout=10) is ZeroDivisionError


def test_a_process_ends_although_nobody_closed_its_feed():
    code = "from netfw.linux.ip.monitor import NetlinkMonitor; it = NetlinkMonitor(None, print)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=20)
