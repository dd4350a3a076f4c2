"""A machine that has no thread left for a while."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from ipaddress import ip_address

import pytest

from netfw.drivers.interface import Device
from netfw.drivers.values.events import KeysChanged
from netfw.errors import BackendUnavailable
from netfw.model.values.address import Mac
from netfw.model.values.ids import PortId
from netfw.testing.lab.wait import wait_until
from netfw_drivers.linux_router.config.settings import RouterSettings
from netfw_drivers.linux_router.runtime.announcements import AnnouncedAddress, Announcements
from netfw_drivers.linux_router.runtime.wiring_cache import WiringCache
from tests.unit.backends.linux_router.samples import PORTS

NAMES = {"netfw-announcer", "netfw-router-announcements"}
ADDRESSES = [AnnouncedAddress("qr-1", Mac("fa:16:3e:00:00:01"), ip_address("10.0.0.1"))]


class Threads:
    """The threads that can still be started."""

    def __init__(self) -> None:
        self.left = 1000
        self._start = threading.Thread.start

    def start(self, thread: threading.Thread) -> None:
        if not self.left:
            raise RuntimeError("can't start new thread")
        self.left -= 1
        self._start(thread)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Threads:
    made = Threads()

    def start(thread: threading.Thread) -> None:
        made.start(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    return made


@pytest.fixture
def announcements() -> Iterator[Announcements]:
    made = Announcements(RouterSettings())
    yield made
    made.close()
    assert not NAMES & running()


def running() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("left", [0, 1])
def test_addresses_are_announced_once_threads_can_be_started(
    threads: Threads, announcements: Announcements, left: int
) -> None:
    threads.left = left
    for _ in range(2):
        with pytest.raises(BackendUnavailable, match="can't start new thread"):
            announcements.update("ns", ADDRESSES)
    threads.left = 2
    announcements.update("ns", ADDRESSES)
    assert running() >= NAMES


def test_announcements_without_a_thread_are_closed(
    threads: Threads, announcements: Announcements
) -> None:
    threads.left = 1
    with pytest.raises(BackendUnavailable):
        announcements.update("ns", ADDRESSES)
    announcements.close()


def test_a_port_is_reported_once_threads_can_be_started(threads: Threads) -> None:
    reported: list[PortId] = []
    device = Device(name="qg-1", mac=Mac("fa:16:3e:00:00:01"), wired=False)
    cache = WiringCache(lambda port: device, reported.append, watched=True)
    assert cache.watch(PORTS[0])
    device = Device(name="qg-1", mac=Mac("fa:16:3e:00:00:01"), wired=True)
    threads.left = 0
    cache.handle_event(KeysChanged("wired", PORTS[:1]))
    threads.left = 1
    cache.handle_event(KeysChanged("wired", PORTS[:1]))
    wait_until(lambda: reported == [PORTS[0]], seconds=30)
    cache.close()
