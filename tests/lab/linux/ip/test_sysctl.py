"""Kernel parameters of a namespace."""

from __future__ import annotations

import subprocess

import pytest

from netfw.errors import NotFound, OperationRefused
from netfw.linux import netns
from netfw.linux.ip import sysctl
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import AddLink, SetSysctl
from netfw.linux.ip.sysctl_names import device_parameter


@pytest.fixture(autouse=True)
def _blue() -> None:
    netns.create("blue")


def by_command(name: str) -> str:
    line = ["ip", "netns", "exec", "blue", "sysctl", "-n", name]
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout.strip()


def test_a_parameter_is_that_of_the_namespace():
    outside = sysctl.read("net.ipv4.ip_forward")
    flipped = "0" if outside == "1" else "1"
    sysctl.write("net.ipv4.ip_forward", flipped, "blue")
    assert sysctl.read("net.ipv4.ip_forward", "blue") == flipped
    assert by_command("net.ipv4.ip_forward") == flipped
    assert sysctl.read("net.ipv4.ip_forward") == outside


def test_a_device_with_a_dot_in_its_name():
    with NetlinkClient("blue") as blue:
        blue.apply([AddLink("eth0.1", "bridge")])
    name = device_parameter("ipv4", "eth0.1", "forwarding")
    sysctl.write(name, "1", "blue")
    assert by_command("net/ipv4/conf/eth0.1/forwarding") == "1"
    assert sysctl.read("net.ipv4.conf.eth0/1.forwarding", "blue") == "1"


def test_only_what_differs_is_set():
    wanted = {"net.ipv4.ip_forward": "1", "net.ipv4.ip_local_port_range": "20000 30000"}
    assert sysctl.converge(wanted, "blue") == tuple(SetSysctl(*pair) for pair in wanted.items())
    assert sysctl.converge(wanted, "blue") == ()


def test_what_is_not_there_or_not_taken_is_said():
    with pytest.raises(NotFound, match=r"sysctl net\.ipv4\.nothing"):
        sysctl.read("net.ipv4.nothing", "blue")
    with pytest.raises(NotFound):
        sysctl.converge({"net.ipv4.conf.nowhere.forwarding": "1"}, "blue")
    with pytest.raises(OperationRefused, match=r"sysctl -w net\.ipv4\.ip_forward=yes"):
        sysctl.write("net.ipv4.ip_forward", "yes", "blue")
    assert sysctl.read_many(["net.ipv4.nothing", "net.ipv4.ip_forward"], "blue") == {
        "net.ipv4.ip_forward": "0"
    }
