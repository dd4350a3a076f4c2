"""Recorder of the events that a driver emits."""

from collections.abc import Callable
from typing import Any

from netfw.drivers.host_driver import HostDriver
from netfw.drivers.values.events import Event, FeedLost, KeysChanged
from netfw.testing.lab.wait import wait_until


class EventRecorder:
    """Records the events of a driver from now on."""

    def __init__(self, driver: HostDriver[Any, Any]) -> None:
        self.events: list[Event] = []
        driver.watch(self.events.append)

    @property
    def keys(self) -> set[Any]:
        changed = (event.keys for event in self.events if isinstance(event, KeysChanged))
        return {key for keys in changed for key in keys}

    @property
    def lost(self) -> bool:
        return any(isinstance(event, FeedLost) for event in self.events)

    def until(self, condition: Callable[[Event], bool]) -> None:
        """Wait until an event meets *condition*."""
        wait_until(lambda: any(map(condition, tuple(self.events))), lambda: str(self.events))
