"""What comes and goes by a station: routes, listening servers, checksums, tracked connections."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from attrs import evolve

from netfw.linux import netns
from netfw.linux.conntrack import Conntrack
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import AddVeth, SetMac, SetMtu, SetUp
from netfw.linux.service_netns import ServiceNetns, why_without_ipv6
from netfw.testing.lab import sandbox
from tests.lab.linux.offload import has_checksum_offload
from tests.lab.linux.service_netns.samples import (
    addresses,
    converge,
    in_netns,
    interfaces,
    plan,
    seen,
    station,
)

_EVERY_PROTOCOL = 3


@pytest.mark.spec("DHCP-27")
def test_default_routes_follow_their_gateways(interface, stations):
    wanted = station(interface)

    def routes(*gateways: str) -> set[str]:
        made = evolve(wanted, gateways=addresses(*gateways))
        converge(stations, made)
        assert plan(stations, made) == ()
        device = f" {wanted.device}"
        connected = {"10.0.0.0/24", "fd00::/64", "fe80::/64"}
        return {route.removesuffix(device) for route in seen(wanted.netns)["routes"]} - connected

    assert routes("10.0.0.1", "fd00::1") == {"default 10.0.0.1", "default fd00::1"}
    assert routes("192.0.2.1", "2001:db8::1") == {
        "192.0.2.1",
        "default 192.0.2.1",
        "2001:db8::1",
        "default 2001:db8::1",
    }
    assert routes("192.0.2.2", "fe80::1") == {
        "192.0.2.2",
        "default 192.0.2.2",
        "default fe80::1",
    }
    assert routes("fd00::1") == {"default fd00::1"}
    assert routes() == set()
    assert routes("10.0.0.2") == set()


@pytest.mark.spec("DHCP-26", "DHCP-27")
def test_routes_outlive_the_address_that_carried_them(interface, stations):
    wanted = station(interface)
    converge(stations, wanted)
    moved = evolve(wanted, addresses=interfaces("10.0.0.3/25", "fd00::3/80"))
    converge(stations, moved)
    assert plan(stations, moved) == ()
    routes = seen(wanted.netns)["routes"]
    assert {f"default {via} {wanted.device}" for via in ("10.0.0.1", "fd00::1")} <= routes


@pytest.mark.spec("DHCP-26")
def test_a_server_listens_on_all_its_addresses_at_once(interface, stations):
    wanted = station(
        interface,
        addresses=interfaces("10.0.0.2/24", "fd00::2/64", "fe80::a9fe:a9fe/128", "169.254.169.254"),
    )
    converge(stations, wanted)

    def listen() -> None:
        scope = socket.if_nametoindex(wanted.device)
        for each in wanted.addresses:
            family = socket.AF_INET if each.version == 4 else socket.AF_INET6
            with socket.socket(family, socket.SOCK_DGRAM) as server:
                where = (str(each.ip), 67)
                server.bind(where if each.version == 4 else (*where, 0, scope))

    netns.run_in(wanted.netns, listen)
    assert plan(stations, wanted) == ()


def test_an_ipv6_that_is_switched_off_leaves_ipv4_and_a_reason(interface, stations):
    wanted = station(interface)
    netns.ensure(wanted.netns)
    in_netns(wanted.netns, "sysctl -w net.ipv6.conf.all.disable_ipv6=1")
    converge(stations, wanted)
    assert plan(stations, wanted) == ()
    found = seen(wanted.netns)
    assert {entry for entry in found["addresses"] if ":" in entry} == set()
    assert f"default 10.0.0.1 {wanted.device}" in found["routes"]
    assert "switched off" in (why_without_ipv6(wanted, stations.observe(wanted.netns)) or "")


def test_a_link_too_small_for_ipv6_has_ipv4(interface, stations):
    wanted = station(interface, mtu=1000)
    converge(stations, wanted)
    assert plan(stations, wanted) == ()
    assert f"10.0.0.2/24 dev {wanted.device}" in seen(wanted.netns)["addresses"]
    larger = evolve(wanted, mtu=1400)
    converge(stations, larger)
    assert plan(stations, larger) == ()
    assert f"fd00::2/64 dev {wanted.device}" in seen(wanted.netns)["addresses"]


@pytest.fixture
def cabled(interface) -> Iterator[ServiceNetns]:
    """Return a station whose device is one end of a plain pair; the other end is ``far`` here.

    Unlike the devices of a switch in userspace, it leaves checksums to hardware.
    """
    sandbox.require()
    wanted = station(interface, fill_checksums=True)
    device = wanted.device
    netns.ensure(wanted.netns)
    with NetlinkClient() as root, NetlinkClient(wanted.netns) as network:
        pair = AddVeth(name="far", peer=device, peer_namespace=wanted.netns)
        root.apply([pair, SetUp("far")])
        network.apply([SetMac(device, wanted.mac), SetMtu(device, wanted.mtu)])
        assert network.run(lambda: has_checksum_offload(device))
    return wanted


@contextmanager
def capture(device: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_PROTOCOL)) as packets:
        packets.bind((device, _EVERY_PROTOCOL))
        packets.settimeout(10)
        yield packets


def broadcast(wanted: ServiceNetns, port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, wanted.device.encode())
        server.bind(("10.0.0.2", 67))
        server.sendto(b"offer", ("255.255.255.255", port))


def has_good_checksum(wanted: ServiceNetns, port: int) -> bool:
    """Return whether a datagram to *port* leaves the station with a correct checksum."""
    with capture("far") as packets:
        netns.run_in(wanted.netns, broadcast, wanted, port)
        while True:
            frame = packets.recv(2000)
            if frame[12:14] == b"\x08\x00" and frame[23] == socket.IPPROTO_UDP:
                break
    packet = frame[14:]
    (length,) = struct.unpack_from("!H", packet, 24)
    segment = packet[20 : 20 + length]
    pseudo = packet[12:20] + struct.pack("!BBH", 0, socket.IPPROTO_UDP, length)
    padded = pseudo + segment + b"\0" * (length % 2)
    total = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    return total % 0xFFFF == 0


@pytest.mark.spec("DHCP-25")
@pytest.mark.parametrize("interface", ["internal"], indirect=True)
def test_answers_of_dhcp_leave_with_their_checksum(stations, cabled):
    converge(stations, cabled)
    assert has_good_checksum(cabled, 68)
    assert not has_good_checksum(cabled, 69), "the rule is about nothing else"
    converge(stations, evolve(cabled, fill_checksums=False))
    assert not has_good_checksum(cabled, 68)


@pytest.mark.spec("DHCP-26")
@pytest.mark.parametrize("interface", ["internal"], indirect=True)
@pytest.mark.parametrize("forget", [True, False])
def test_the_caller_chooses_whether_connections_of_a_removed_address_are_forgotten(
    interface, stations, forget
):
    wanted = station(interface, addresses=interfaces("10.0.0.2/24", "10.0.0.3/24", "fd00::2/64"))
    converge(stations, wanted)
    for tool in ("iptables", "ip6tables"):
        in_netns(wanted.netns, f"{tool} -A OUTPUT -m conntrack --ctstate NEW -j ACCEPT")
    netns.run_in(wanted.netns, _talk_to_yourself, wanted)
    assert tracked(wanted) == {"10.0.0.2", "10.0.0.3", "fd00::2"}
    left = evolve(wanted, addresses=interfaces("10.0.0.3/16"), forget_connections=forget)
    converge(stations, left)
    assert plan(stations, left) == ()
    assert tracked(wanted) == ({"10.0.0.3"} if forget else {"10.0.0.2", "10.0.0.3", "fd00::2"})


def _talk_to_yourself(wanted: ServiceNetns) -> None:
    for each in wanted.addresses:
        family = socket.AF_INET if each.version == 4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_DGRAM) as talker:
            talker.bind((str(each.ip), 0))
            talker.sendto(b"x", talker.getsockname())


def tracked(wanted: ServiceNetns) -> set[str]:
    with Conntrack(wanted.netns) as table:
        return {str(connection.original.source) for connection in table.connections()}
