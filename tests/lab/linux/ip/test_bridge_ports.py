"""Which bridge devices are on, by the hundred."""

from __future__ import annotations

import pytest

from netfw.errors import NotFound
from netfw.linux.ip.bridge_ports import read_bridge_masters
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import AddLinuxBridge, AddVeth, SetMaster
from netfw.linux.process.command import run_command


def test_a_device_is_on_one_bridge_or_none(blue: NetlinkClient) -> None:
    blue.apply([AddLinuxBridge("br1"), AddVeth(name="one", peer="two")])
    blue.apply([SetMaster("one", "br1")])
    found = read_bridge_masters(namespace="blue")
    assert found == {name: link.master for name, link in blue.links().items()}
    some = read_bridge_masters(["one", "two", "absent", "x" * 40], "blue")
    assert some == {"one": "br1", "two": None}
    assert read_bridge_masters([], "blue") == {}


def test_hundreds_are_read_as_one_is(blue: NetlinkClient) -> None:
    blue.apply([AddLinuxBridge("br1")])
    for number in range(150):
        blue.apply([AddVeth(name=f"a{number}", peer=f"b{number}")])
    blue.apply([SetMaster(f"a{number}", "br1") for number in range(150)])
    found = read_bridge_masters(namespace="blue")
    assert {name for name, master in found.items() if master == "br1"} == {
        f"a{number}" for number in range(150)
    }


def test_a_bridge_is_a_piece_of_cable(blue: NetlinkClient) -> None:
    blue.apply([AddLinuxBridge("br1")])
    output = run_command(["ip", "-d", "link", "show", "br1"], namespace="blue").output
    assert "forward_delay 0 " in output
    assert "mcast_snooping 0 " in output


def test_another_namespace_has_its_own(blue: NetlinkClient) -> None:
    blue.apply([AddLinuxBridge("br9")])
    assert "br9" in read_bridge_masters(namespace="blue")
    assert "br9" not in read_bridge_masters()
    with pytest.raises(NotFound):
        read_bridge_masters(namespace="nowhere")
