"""Bundles on connections that are lost."""

import pytest

from netfw import flows as of
from netfw.errors import BackendUnavailable
from netfw.ovs.openflow import bundle, encode_flows, messages
from netfw.ovs.openflow.bundle import Bundles
from netfw.ovs.openflow.connection import Connection
from netfw.ovs.openflow.flow_diff import FlowChanges
from netfw.ovs.openflow.messages import Framer, Type

BUNDLE_ADD = 34


class FakeSwitch(Connection):
    """A switch that opens a bundle with its first message, as Open vSwitch does."""

    connected = True

    def __init__(self) -> None:
        super().__init__("fake", 1.0)
        self.flows = 0
        self.losses: list[int] = []
        """Numbers of messages in a bundle at which the connection is lost, and made again."""
        self._bundle: int | None = None
        self._state = []

    def wait_connected(self, timeout=None) -> None:
        pass

    def on_state(self, listener) -> None:
        self._state.append(listener)
        listener(True)

    def close(self) -> None:
        pass

    def send(self, data: bytes) -> None:
        for sent in Framer().feed(data):
            if sent.type == BUNDLE_ADD:
                self._bundle = (self._bundle or 0) + 1
            elif sent.type == Type.BUNDLE_CONTROL:
                self._control(sent)
        if self._bundle in self.losses:
            self.losses.remove(self._bundle)
            self._lose()

    def _control(self, sent) -> None:
        step = int.from_bytes(sent.data[12:14], "big")
        if step == messages.OPEN:
            self._bundle = 0
        elif step == messages.COMMIT:
            self.flows, self._bundle = self.flows + (self._bundle or 0), None
        self._deliver(sent)

    def _lose(self) -> None:
        self._bundle = None
        self._fail_waiting()
        for up in (False, True):
            for listener in self._state:
                listener(up)


def changes(count: int) -> FlowChanges:
    flows = (
        of.Flow(table=5, priority=9, match=of.register(0, number), actions=(of.output(1),))
        for number in range(count)
    )
    return FlowChanges(tuple(encode_flows(flows).values()), (), {})


def test_bundle_in_parts_on_two_connections_is_not_committed(monkeypatch) -> None:
    monkeypatch.setattr(bundle, "_CHUNK", 1)
    switch = FakeSwitch()
    bundles, committed = Bundles(switch), []
    switch.losses = [3]
    with pytest.raises(BackendUnavailable, match="lost within a bundle"):
        bundles.commit(changes(5), lambda: committed.append(True))
    assert (switch.flows, committed) == (0, [])
    bundles.commit(changes(5), lambda: committed.append(True))
    assert (switch.flows, committed) == (5, [True])
