"""A bridge without flows, and a client of it."""

from collections.abc import Iterator

import pytest

from netfw.ovs.openflow import OpenFlow
from netfw.testing.lab.openvswitch import PrivateOvs


@pytest.fixture
def bridge(ovs: PrivateOvs) -> str:
    """Where the management socket of an empty bridge is."""
    ovs.add_bridge("br0")
    ovs.ofctl("del-flows", ovs.management("br0"))
    return ovs.management("br0")


@pytest.fixture
def client(bridge: str) -> Iterator[OpenFlow]:
    found = OpenFlow(bridge)
    try:
        found.wait_connected()
        yield found
    finally:
        found.close()
