"""Bundles whose connection is lost, and made again, while they are sent."""

from __future__ import annotations

from typing import Any

import pytest

from netfw import flows as of
from netfw.errors import BackendUnavailable
from netfw.ovs.openflow import FlowMirror, OpenFlow, bundle
from netfw.ovs.openflow.flow_cache import group_of
from netfw.testing.lab.wait import TIMEOUT, wait_until

COUNT = 20
WANTED = {
    number: group_of(
        of.Flow(table=5, priority=9, match=of.register(0, number), actions=(of.output(1),))
    )
    for number in range(COUNT)
}


@pytest.mark.spec("L2-20")
def test_bundle_in_parts_on_two_connections_changes_nothing(
    client: OpenFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "_CHUNK", 1)
    mirror = FlowMirror(client)
    mirror.wait_current(TIMEOUT)
    connection: Any = client.connection
    send, sent, states = connection.send, list[bytes](), list[bool]()
    client.on_state(states.append)

    def lose_once(data: bytes) -> None:
        send(data)
        sent.append(data)
        if len(sent) == COUNT // 2:
            wait_until(lambda: not connection._waiting, "the bundle is open")
            connection._hang_up()
            wait_until(lambda: states == [True, False, True], lambda: states)

    monkeypatch.setattr(connection, "send", lose_once)
    with pytest.raises(BackendUnavailable, match="lost within a bundle"):
        mirror.converge(WANTED)
    mirror.wait_current(TIMEOUT)
    assert not client.flows()
    mirror.converge(WANTED)
    assert len(client.flows()) == COUNT
