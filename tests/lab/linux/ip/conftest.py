"""Every test begins and ends with an empty sandbox."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from netfw.linux import netns
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import AddVeth, SetUp
from netfw.testing.lab import sandbox
from netfw.testing.lab.wait import wait_until


@pytest.fixture(autouse=True)
def _sandbox() -> Iterator[None]:
    sandbox.require()
    yield
    for name in netns.names():
        netns.delete(name)


@pytest.fixture
def ip() -> Callable[..., Any]:
    """Return a function that returns the output of ``ip -j ...`` as data."""

    def run(*arguments: str) -> Any:
        done = subprocess.run(
            ["ip", "-j", "-d", *arguments], check=True, capture_output=True, text=True
        )
        return json.loads(done.stdout or "null")

    return run


@pytest.fixture
def blue() -> Iterator[NetlinkClient]:
    """Yield a namespace with a device e0, up, whose other end o0 is in a namespace ``outside``."""
    netns.create("blue")
    netns.create("outside")
    with NetlinkClient("blue") as network, NetlinkClient("outside") as outside:
        network.apply([AddVeth(name="e0", peer="o0", peer_namespace="outside"), SetUp("e0")])
        outside.apply([SetUp("o0")])
        # The kernel adds the link-local address when it has handled the carrier.
        wait_until(lambda: any(entry.automatic for entry in network.addresses("e0")))
        yield network
