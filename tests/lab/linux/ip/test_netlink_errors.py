"""What is refused, and what a network leaves behind, on the real kernel."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_interface

import pytest
from attrs import evolve

from netfw.errors import BackendBroken, Conflict, NotFound, OperationRefused
from netfw.linux import netns
from netfw.linux.ip.execute import BatchFailed
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.netlink_socket import Netlink
from netfw.linux.ip.operations import (
    AddAddress,
    AddLink,
    AddRoute,
    AddVeth,
    DelAddress,
    DelLink,
    DelNeighbour,
    DelRoute,
    DelRule,
    MoveLink,
    SetMtu,
    SetSysctl,
    SetUp,
)
from netfw.linux.ip.values import IpRule, Neighbour, addresses, route
from netfw.model.values.address import Mac
from tests.lab.linux.ip.converge import converge_addresses


def test_removing_what_is_absent_succeeds(blue):
    gone = addresses("nowhere", ["10.0.0.2/24"])[0]
    blue.apply(
        [
            DelLink("nowhere"),
            DelAddress(gone),
            DelAddress(evolve(gone, device="e0")),
            DelAddress(evolve(gone, device="e0", interface=ip_interface("fd00::2/64"))),
            DelRoute(route("10.9.0.0/16", device="e0")),
            DelRoute(route("fd09::/64", device="e0")),
            DelRoute(route("10.9.0.0/16", device="nowhere")),
            DelRule(IpRule(priority=1000, source="10.1.0.0/24", table=100)),
            DelRule(IpRule(priority=1001, source="fd01::/64", table=100)),
            DelNeighbour(Neighbour(device="e0", address="10.0.0.9", mac=Mac("fa:16:3e:00:00:09"))),
            DelNeighbour(Neighbour(device="e0", address="fd00::9", proxy=True)),
        ]
    )


def test_a_refused_operation_is_named_with_what_was_done_before(blue):
    batch = [SetMtu("e0", 1400), AddLink("e0", "bridge"), SetMtu("e0", 1300)]
    with pytest.raises(Conflict, match="ip link add e0 type bridge: File exists") as caught:
        blue.apply(batch)
    stopped = caught.value.__cause__
    assert isinstance(stopped, BatchFailed)
    assert (stopped.failed, stopped.done) == (batch[1], (batch[0],))
    assert "ip link set e0 mtu 1400" in str(stopped)
    assert blue.links()["e0"].mtu == 1400


@pytest.mark.parametrize(
    ("operation", "error", "words"),
    [
        (SetUp("nowhere"), NotFound, "ip link set nowhere up: there is no device nowhere"),
        (AddAddress(addresses("nowhere", ["10.0.0.2/24"])[0]), NotFound, "nowhere"),
        (AddAddress(addresses("nowhere", ["fd00::2/64"])[0]), NotFound, "nowhere"),
        (AddRoute(route("fd09::/64", device="nowhere")), NotFound, "nowhere"),
        (AddRoute(route("10.9.0.0/16", via="10.99.0.1")), OperationRefused, "gateway"),
        (SetMtu("e0", 20), OperationRefused, "mtu less than device minimum"),
        (MoveLink(name="e0", namespace="nowhere"), NotFound, "no network namespace nowhere"),
        (AddVeth(name="a", peer="b", peer_namespace="nowhere"), NotFound, "nowhere"),
        (SetSysctl("net.ipv4.nothing", "1"), NotFound, "net.ipv4.nothing"),
    ],
)
def test_errors_are_netfws_own_and_say_what_the_kernel_said(blue, operation, error, words):
    with pytest.raises(error, match=words):
        blue.apply([operation])


def test_without_the_right_to_do_so_the_message_says_what_is_lacking(blue):
    def drop_capabilities_and_try() -> None:
        # Capabilities belong to a thread: this one is thrown away with them.
        import ctypes

        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        none = (ctypes.c_uint32 * 6)()
        assert ctypes.CDLL(None).capset(header, none) == 0
        with NetlinkClient() as powerless:
            powerless.apply([AddLink("br9", "bridge")])

    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(BackendBroken, match=r"ip link add br9 type bridge: .*run as root"),
    ):
        pool.submit(drop_capabilities_and_try).result()


def test_a_netlink_socket_refuses_every_thread_but_its_own(blue):
    with netns.worker("blue") as there:
        socket = there.run(Netlink)
        for misuse in (
            lambda: socket.index("e0"),
            lambda: socket.name(1),
            lambda: socket.dump(None),
            lambda: socket.send(None),
            lambda: socket.get(None),
        ):
            with pytest.raises(RuntimeError, match="belongs to the thread netns-blue"):
                misuse()
        assert there.run(socket.index, "e0") == blue.links()["e0"].index
        socket.close()


def test_networks_of_two_namespaces_used_by_two_threads_200_times_never_mix():
    for name in ("blue", "red"):
        netns.create(name)

    def work(name: str) -> set[str]:
        with NetlinkClient(name) as network:
            network.apply([AddLink(f"br-{name}", "bridge")])
        seen: set[str] = set()
        for turn in range(200):
            with NetlinkClient(name) as network:
                address = addresses(f"br-{name}", [f"10.0.0.{turn % 2 + 1}/24"])
                converge_addresses(network, f"br-{name}", address)
                seen |= set(network.links())
        return seen

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, ["blue", "red"])) == [{"lo", "br-blue"}, {"lo", "br-red"}]


def test_a_network_leaves_no_thread_and_no_descriptor_whatever_happens(blue):
    def state() -> tuple[int, int]:
        return threading.active_count(), len(os.listdir("/proc/self/fd"))

    def crash() -> None:
        raise ZeroDivisionError

    before = state()
    for _ in range(10):
        with pytest.raises(ZeroDivisionError), NetlinkClient("blue") as network:
            network.run(crash)
        with pytest.raises(NotFound):
            NetlinkClient("nowhere")
        with pytest.raises(Conflict), NetlinkClient("blue") as network:
            network.apply([AddVeth(name="e0", peer="x", peer_namespace="outside")])
    assert state() == before


def test_a_crash_keeps_no_namespace_alive():
    netns.create("blue")
    netns.create("outside")

    def crash() -> None:
        raise ZeroDivisionError

    with NetlinkClient("outside") as outside:
        outside.apply([AddVeth(name="o0", peer="e0", peer_namespace="blue")])
        with pytest.raises(ZeroDivisionError), NetlinkClient("blue") as blue:
            blue.run(crash)
        with pytest.raises(ZeroDivisionError):
            netns.run_in("blue", crash)
        netns.delete("blue")
        deadline = time.monotonic() + 60
        while "o0" in outside.links():
            assert time.monotonic() < deadline, "something still refers to the namespace"
            time.sleep(0.01)
