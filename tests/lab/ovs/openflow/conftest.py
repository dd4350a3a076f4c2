"""A bridge without flows, and a client of it."""

from collections.abc import Callable, Iterator

import pytest

from netfw.ovs.openflow import OpenFlow
from netfw.testing.lab.openvswitch import PrivateOvs
from tests.lab.ovs.openflow.openflow_peer import Behaviour, Peer


@pytest.fixture
def bridge(ovs: PrivateOvs) -> str:
    """Return the management socket of an empty bridge."""
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


@pytest.fixture
def connected_to() -> Iterator[Callable[..., tuple[Peer, OpenFlow]]]:
    opened: list[tuple[Peer, OpenFlow]] = []

    def connect(behaviour: Behaviour, **options: float) -> tuple[Peer, OpenFlow]:
        peer = Peer(behaviour)
        opened.append((peer, OpenFlow(peer.target, **options)))
        return opened[-1]

    yield connect
    for peer, client in opened:
        client.close()
        peer.close()
