"""Real packets, captured at the other end of a veth."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from ipaddress import ip_address

import pytest

from netfw.errors import NotFound, OperationRefused
from netfw.linux import netns
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import (
    AddAddress,
    AddVeth,
    DelLink,
    SetChecksumOffload,
    SetMac,
    SetNeighbour,
    SetSysctl,
    SetUp,
)
from netfw.linux.ip.values import Address, Neighbour, addresses
from netfw.linux.sockets.address_announcement import announce_addresses
from netfw.linux.sockets.arp_nd_frames import announcement
from netfw.model.values.address import Mac

HERE, THERE = Mac("fa:16:3e:00:00:01"), Mac("fa:16:3e:00:00:02")
ARP, IPV4, IPV6 = 0x0806, 0x0800, 0x86DD


@pytest.fixture
def pair() -> Iterator[tuple[NetlinkClient, NetlinkClient]]:
    """Yield e0 in blue and o0 in outside, joined and up, without IPv6."""
    netns.create("blue")
    netns.create("outside")
    with NetlinkClient("blue") as blue, NetlinkClient("outside") as outside:
        quiet = [SetSysctl("net.ipv6.conf.default.disable_ipv6", "1")]
        blue.apply(quiet)
        outside.apply(quiet)
        blue.apply([AddVeth(name="e0", peer="o0", peer_namespace="outside"), SetMac("e0", HERE)])
        outside.apply([SetMac("o0", THERE), SetUp("o0")])
        blue.apply([SetUp("e0")])
        yield blue, outside


def listen(protocol: int) -> socket.socket:
    wire = netns.run_in(
        "outside",
        lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol)),
    )
    wire.bind(("o0", protocol))
    wire.settimeout(10)
    return wire


def test_gratuitous_arp_is_sent_as_request_and_reply(pair):
    with listen(ARP) as wire:
        announce_addresses("e0", [ip_address("10.0.0.2")], "blue")
        captured = [wire.recv(2048) for _ in range(2)]
    assert captured == list(announcement(HERE, ip_address("10.0.0.2")))


def test_gratuitous_arp_is_sent_to_the_given_destination(pair):
    with listen(ARP) as wire:
        announce_addresses("e0", [ip_address("10.0.0.2")], "blue", arp_destination=THERE)
        assert [wire.recv(2048)[:6].hex(":") for _ in range(2)] == [THERE, THERE]


@pytest.mark.parametrize("router", [False, True])
def test_an_unsolicited_neighbour_advertisement_is_sent(pair, router):
    with listen(IPV6) as wire:
        announce_addresses("e0", [ip_address("fd00::2")], "blue", router=router)
        frame = wire.recv(2048)
    assert frame == announcement(HERE, ip_address("fd00::2"), router)[0]


def test_the_kernel_of_a_neighbour_learns_the_new_place_of_an_address(pair, ip):
    _, outside = pair
    outside.apply(
        [
            SetSysctl("net/ipv6/conf/o0/disable_ipv6", "0"),
            AddAddress(Address(device="o0", interface="10.0.0.1/24")),
            AddAddress(Address(device="o0", interface="fd00::1/64", nodad=True)),
        ]
    )
    for address in ("10.0.0.2", "fd00::2"):
        old = ("lladdr", "fa:16:3e:00:00:99", "dev", "o0", "nud", "stale")
        ip("-n", "outside", "neighbour", "add", address, *old)
    announce_addresses("e0", [ip_address("10.0.0.2"), ip_address("fd00::2")], "blue")
    known = {e["dst"]: e["lladdr"] for e in ip("-n", "outside", "neighbour", "show")}
    assert known == {"10.0.0.2": HERE, "fd00::2": HERE}


def test_announcing_where_it_cannot_be_says_why(pair):
    blue, _ = pair
    address = [ip_address("10.0.0.2")]
    with pytest.raises(NotFound, match=r"announcing 10\.0\.0\.2 on nowhere"):
        announce_addresses("nowhere", address, "blue")
    blue.apply([SetUp("e0", up=False)])
    with pytest.raises(OperationRefused, match=r"announcing 10\.0\.0\.2 on e0: Network is down"):
        announce_addresses("e0", address, "blue")
    with pytest.raises(ValueError, match="not a device name"):
        announce_addresses("../e0", address, "blue")


def test_device_that_goes_while_an_announcement_is_prepared_is_not_found(pair, monkeypatch):
    blue, _ = pair

    class LateSocket(socket.socket):
        """A socket whose device is deleted once it is bound."""

        def bind(self, address):
            super().bind(address)
            blue.apply([DelLink("e0")])

    monkeypatch.setattr("netfw.linux.sockets.address_announcement.socket.socket", LateSocket)
    with pytest.raises(NotFound, match=r"announcing 10\.0\.0\.2 on e0: it is gone, or has no MAC"):
        announce_addresses("e0", [ip_address("10.0.0.2")], "blue")


def udp_checksum_of_a_datagram_is_right() -> bool:
    """Send a datagram from blue; whether its checksum is right when it arrives outside."""
    with listen(IPV4) as wire:
        sender = netns.run_in("blue", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        with sender:
            sender.sendto(b"four", ("10.0.0.1", 9))
        packet = wire.recv(2048)[14:]
    segment = packet[20:]
    words = struct.unpack("!16H", packet[12:20] + struct.pack("!HH", 17, len(segment)) + segment
                          + b"\0" * (20 - len(segment)))  # fmt: skip
    total = sum(words)
    return (total & 0xFFFF) + (total >> 16) == 0xFFFF


def test_without_offload_the_kernel_fills_in_checksums(pair):
    blue, _ = pair
    blue.apply(
        [
            AddAddress(addresses("e0", ["10.0.0.2/24"])[0]),
            SetNeighbour(Neighbour(device="e0", address="10.0.0.1", mac=THERE)),
        ]
    )
    assert udp_checksum_of_a_datagram_is_right() is False
    blue.apply([SetChecksumOffload("e0", False)])
    assert udp_checksum_of_a_datagram_is_right() is True
