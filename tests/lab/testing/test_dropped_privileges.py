"""A call to which the kernel refuses every change of the network."""

from __future__ import annotations

import subprocess
from functools import partial

import pytest

from netfw.errors import NetfwError
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import AddLinuxBridge, DelLink
from netfw.testing.conformance.watch.dropped_privileges import without_network_privileges
from netfw.testing.lab import sandbox

DEVICE = "refused0"
ADD = ["ip", "link", "add", DEVICE, "type", "bridge"]


@pytest.fixture(autouse=True)
def inside() -> None:
    sandbox.require()


def test_commands_of_the_call_are_refused_and_those_after_it_are_not() -> None:
    run = partial(subprocess.run, ADD, check=False, capture_output=True, text=True)
    assert "Operation not permitted" in without_network_privileges(run).stderr
    assert run().returncode == 0
    subprocess.run(["ip", "link", "delete", DEVICE], check=True)


def test_sockets_of_the_call_are_refused() -> None:
    def add() -> None:
        with NetlinkClient() as client:
            client.apply([AddLinuxBridge(DEVICE)])

    with pytest.raises(NetfwError, match=r"not permitted|root"):
        without_network_privileges(add)
    add()
    with NetlinkClient() as client:
        client.apply([DelLink(DEVICE)])
