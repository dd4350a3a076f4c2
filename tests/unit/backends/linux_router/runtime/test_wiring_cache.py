"""Cached answers about the wiring of ports, and the events that end them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netfw.drivers.interface import Device
from netfw.drivers.values.events import FeedLost, KeysChanged
from netfw.model.values.address import Mac
from netfw.model.values.ids import PortId
from netfw.testing.lab.wait import wait_until
from netfw_drivers.linux_router.runtime.wiring_cache import WiringCache
from tests.unit.backends.linux_router.samples import PORTS

ONE, OTHER = PORTS[:2]


class Switch:
    """The ports that the switch has admitted, with a cache of its answers."""

    def __init__(self) -> None:
        self.wired: set[PortId] = set()
        self.reads: list[PortId] = []
        self.reported: list[PortId] = []
        self.cache = WiringCache(self._read, self.reported.append, watched=True)

    def _read(self, port: PortId) -> Device:
        self.reads.append(port)
        return Device(name="qr-1", mac=Mac("fa:16:3e:00:00:01"), wired=port in self.wired)


@pytest.fixture
def switch() -> Iterator[Switch]:
    made = Switch()
    yield made
    made.cache.close()


def test_an_answer_is_read_once_until_an_event_names_the_port(switch: Switch) -> None:
    switch.wired = {ONE, OTHER}
    for _ in range(2):
        assert not switch.cache.is_unwired(ONE)
        assert not switch.cache.is_unwired(OTHER)
    assert switch.reads == [ONE, OTHER]
    switch.wired = set()
    switch.cache.handle_event(KeysChanged("rejected", [ONE]))
    assert switch.cache.is_unwired(ONE)
    assert not switch.cache.is_unwired(OTHER), "no event named it"


def test_a_lost_feed_ends_every_answer(switch: Switch) -> None:
    switch.wired = {ONE, OTHER}
    assert not switch.cache.is_unwired(ONE)
    assert not switch.cache.is_unwired(OTHER)
    switch.wired = set()
    switch.cache.handle_event(FeedLost("the switch was restarted"))
    assert switch.cache.is_unwired(ONE)
    assert switch.cache.is_unwired(OTHER)


def test_a_port_that_was_admitted_while_the_feed_was_lost_is_reported(switch: Switch) -> None:
    assert switch.cache.watch(ONE)
    switch.wired = {ONE}
    switch.cache.handle_event(FeedLost("the switch was restarted"))
    wait_until(lambda: switch.reported == [ONE], lambda: switch.reported)
