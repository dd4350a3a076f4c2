"""The announcer, with packets captured at the other end of a veth."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from ipaddress import ip_address

import pytest

from netfw.linux import netns
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import AddVeth, SetMac, SetSysctl, SetUp
from netfw.linux.sockets.announcer import Announcer
from netfw.linux.sockets.arp_nd_frames import announcement
from netfw.model.values.address import Mac
from netfw.testing.lab.wait import wait_until

MACS = {"blue": Mac("fa:16:3e:00:00:01"), "green": Mac("fa:16:3e:00:00:02")}
ARP, IPV6 = 0x0806, 0x86DD
V4, V6 = ip_address("10.0.0.2"), ip_address("fd00::2")
FOREVER = 10_000_000.0


@pytest.fixture
def namespaces() -> Iterator[None]:
    """Make a device e0 in each of two namespaces, whose other ends are in ``outside``.

    e0 is set up last: it has a carrier then, and sends at once.  The kernel drops what a device
    sends between a later carrier and the work that activates its queue.
    """
    quiet = SetSysctl("net.ipv6.conf.default.disable_ipv6", "1")
    netns.create("outside")
    with NetlinkClient("outside") as outside:
        outside.apply([quiet])
        for name, mac in MACS.items():
            netns.create(name)
            with NetlinkClient(name) as network:
                pair = AddVeth(name="e0", peer=name, peer_namespace="outside")
                network.apply([quiet, pair, SetMac("e0", mac)])
                outside.apply([SetUp(name)])
                network.apply([SetUp("e0")])
        yield


def listen(device: str, protocol: int) -> socket.socket:
    wire = netns.run_in(
        "outside",
        lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol)),
    )
    wire.bind((device, protocol))
    wire.settimeout(20)
    return wire


def received(wire: socket.socket, count: int) -> list[bytes]:
    return [wire.recv(2048) for _ in range(count)]


def silent(wire: socket.socket) -> bool:
    wire.setblocking(False)
    try:
        wire.recv(2048)
    except BlockingIOError:
        return True
    return False


def queued(announcer: Announcer) -> int:
    with announcer._changed:
        return len(announcer._first) + len(announcer._repeats) + len(announcer._sending)


@pytest.mark.spec("L3-22")
def test_addresses_of_several_namespaces_are_announced_in_rounds(namespaces):
    with (
        listen("blue", ARP) as blue,
        listen("green", IPV6) as green,
        Announcer(rounds=3, interval=0.01) as announcer,
    ):
        announcer.announce("blue", "e0", [V4])
        announcer.announce("green", "e0", [V6], router=True, rounds=2)
        assert received(blue, 6) == list(announcement(MACS["blue"], V4)) * 3
        assert received(green, 2) == list(announcement(MACS["green"], V6, True)) * 2
        wait_until(lambda: queued(announcer) == 0)
        assert silent(blue)
        assert silent(green)


def test_cancelled_addresses_are_not_repeated(namespaces):
    gone, kept = ip_address("10.0.0.3"), V4
    with listen("blue", ARP) as wire, Announcer(rounds=2, interval=3) as announcer:
        announcer.announce("blue", "e0", [gone, kept])
        first = [*announcement(MACS["blue"], gone), *announcement(MACS["blue"], kept)]
        assert received(wire, 4) == first
        announcer.cancel("blue", "e0", [gone])
        assert received(wire, 2) == list(announcement(MACS["blue"], kept))
        wait_until(lambda: queued(announcer) == 0)
        assert silent(wire)


def test_cancelling_a_namespace_cancels_all_its_addresses(namespaces):
    with Announcer(interval=FOREVER) as announcer, listen("green", ARP) as wire:
        announcer.announce("blue", "e0", [V4, V6])
        announcer.announce("green", "e0", [V4])
        received(wire, 2)
        announcer.cancel("blue")
        wait_until(lambda: queued(announcer) == 1)
        announcer.cancel("green", "e0")
        assert queued(announcer) == 0


def test_a_full_queue_drops_repetitions_before_new_addresses(namespaces, caplog):
    many = [ip_address(f"10.0.1.{number}") for number in range(20)]
    with listen("blue", ARP) as wire, Announcer(interval=FOREVER, limit=8) as announcer:
        announcer.announce("blue", "e0", many[:8])
        received(wire, 16)
        wait_until(lambda: len(announcer._repeats) == 8)
        announcer.announce("blue", "e0", many[8:12])
        assert received(wire, 8) == [
            frame for address in many[8:12] for frame in announcement(MACS["blue"], address)
        ]
        with announcer._changed:  # the thread cannot send meanwhile
            with caplog.at_level(logging.WARNING):
                announcer.announce("blue", "e0", many)
            assert len(announcer._first) == 8
        assert "12 addresses are not announced" in caplog.text


def test_announcement_on_a_missing_device_is_logged_and_skipped(namespaces, caplog):
    with caplog.at_level(logging.INFO), listen("green", ARP) as wire, Announcer() as announcer:
        announcer.announce("nowhere", "e0", [V4])
        announcer.announce("blue", "e9", [V4])
        announcer.announce("green", "e0", [V4])
        assert received(wire, 2) == list(announcement(MACS["green"], V4))
    assert "announcer: e9 in blue" in caplog.text
    assert "announcer: e0 in nowhere" in caplog.text


def test_closing_leaves_no_thread_however_much_is_queued():
    before = threading.active_count()
    announcer = Announcer(interval=FOREVER)
    announcer.announce("nowhere", "e0", [ip_address(f"10.0.0.{n}") for n in range(250)])
    announcer.close()
    announcer.close()
    assert threading.active_count() == before


def test_what_cannot_be_announced_is_refused():
    with Announcer() as announcer:
        with pytest.raises(ValueError, match="not a device name"):
            announcer.announce("blue", "../e0", [V4])
        with pytest.raises(ValueError, match="at least 1"):
            announcer.announce("blue", "e0", [V4], rounds=0)
