"""Links on the real kernel, compared with ``ip``."""

from __future__ import annotations

import os
import time
from contextlib import suppress

import pytest

from netfw.errors import BackendBroken, NotFound
from netfw.linux import netns
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import (
    AddLink,
    AddVeth,
    DelLink,
    MoveLink,
    RenameLink,
    SetChecksumOffload,
    SetMac,
    SetMaster,
    SetMtu,
    SetUp,
)
from netfw.model.values.address import Mac
from tests.lab.linux.offload import has_checksum_offload


def await_state(network: NetlinkClient, **wanted: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        links = network.links()
        states = {name: links[name].state for name in wanted}
        if states == wanted:
            return
        assert time.monotonic() < deadline, states
        time.sleep(0.01)


def test_links_are_listed_as_ip_lists_them(blue, ip):
    blue.apply(
        [
            AddLink("br0", "bridge"),
            AddVeth(name="v0", peer="v1"),
            SetMaster("v0", "br0"),
            SetMtu("v1", 1400),
            SetMac("v1", "fa:16:3e:00:00:01"),
            SetUp("v1"),
        ]
    )
    # The kernel settles operational states a moment after the devices come up.
    await_state(blue, e0="up", v1="lowerlayerdown")
    found = blue.links()
    listed = ip("-n", "blue", "link", "show")
    assert {
        entry["ifname"]: (
            entry["ifindex"],
            entry["mtu"],
            entry["address"],
            "UP" in entry["flags"],
            entry["operstate"].lower(),
            entry.get("master"),
            entry.get("linkinfo", {}).get("info_kind"),
        )
        for entry in listed
    } == {
        link.name: (link.index, link.mtu, link.mac, link.up, link.state, link.master, link.kind)
        for link in found.values()
    }
    assert found["v0"].master == "br0"
    assert (found["v1"].mtu, found["v1"].mac) == (1400, Mac("fa:16:3e:00:00:01"))
    blue.apply([SetMaster("v0", None), SetUp("v1", up=False)])
    assert blue.links()["v0"].master is None
    assert blue.links()["v1"].up is False


def test_a_device_is_renamed_moved_and_deleted(blue):
    netns.create("red")
    blue.apply(
        [
            AddVeth(name="v0", peer="v1"),
            RenameLink("v0", "w0"),
            MoveLink(name="w0", namespace="red", new_name="inside"),
        ]
    )
    with NetlinkClient("red") as red:
        assert set(red.links()) == {"lo", "inside"}
        red.apply([MoveLink(name="inside", namespace=netns.of_process(os.getpid()))])
    with NetlinkClient() as here:
        assert "inside" in here.links()
        here.apply([DelLink("inside"), DelLink("inside")])
        assert "inside" not in here.links()
    assert "v1" not in blue.links()


def test_dummy_devices_are_made_or_refused_with_a_reason(blue):
    with suppress(BackendBroken):
        blue.apply([AddLink("d0", "dummy")])
        assert blue.links()["d0"].kind == "dummy"
    with pytest.raises(BackendBroken, match=r"ip link add d1 type no-such: .*kernel lacks it"):
        blue.apply([AddLink("d1", "no-such")])


def test_checksum_offload_is_switched_without_a_process(blue):
    blue.apply([SetChecksumOffload("e0", False)])
    assert netns.run_in("blue", has_checksum_offload, "e0") is False
    blue.apply([SetChecksumOffload("e0", True)])
    assert netns.run_in("blue", has_checksum_offload, "e0") is True
    with pytest.raises(NotFound, match="ethtool -K nowhere tx off"):
        blue.apply([SetChecksumOffload("nowhere", False)])
