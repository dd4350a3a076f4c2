"""Veth tracker: finds veth pairs that lost their switch port, though they look as before.

A device that a switch makes disappears with its port, or loses its carrier.  Of a veth pair the
switch has only the other end: when its port is removed both ends stay, without connectivity.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from uuid import UUID

from netfw.drivers.values.events import Event, FeedLost, KeysChanged
from netfw.linux.ip.values import Link
from netfw.linux.service_netns.values import PAIR
from netfw.model.values.ids import PortId


class VethTracker:
    """Cache of the veth pairs that have a port, invalidated by events of the interface driver.

    A pair that never had a port of the interface driver is foreign, and never lost.
    *device_names* returns the names that the device of a port may have,
    *watched* is whether the interface driver sends events at all.  Thread-safe.
    """

    def __init__(self, device_names: Callable[[PortId], frozenset[str]], *, watched: bool) -> None:
        self._device_names, self._watched = device_names, watched
        self._lock = threading.Lock()
        self._had: set[str] = set()
        self._sure: set[str] = set()
        self._events = 0

    def handle_event(self, event: Event) -> None:
        """Invalidate the pairs of an event of the interface driver."""
        with self._lock:
            self._events += 1
            if isinstance(event, FeedLost):
                self._sure.clear()
            elif isinstance(event, KeysChanged):
                ports = (PortId(key) for key in event.keys if isinstance(key, UUID))
                self._sure.difference_update(*map(self._device_names, ports))

    def forget(self, device: str) -> None:
        """Remove *device*, which is deleted on purpose."""
        with self._lock:
            self._had.discard(device)
            self._sure.discard(device)

    def lost(
        self, links: Iterable[Link], present: Callable[[], Collection[PortId] | None]
    ) -> frozenset[str]:
        """Return those of *links* that had a port and have none; *present* is called if needed."""
        pairs = {link.name for link in links if link.kind == PAIR}
        with self._lock:
            if pairs <= self._sure:
                return frozenset()
            before = self._events
        ports = present()
        if ports is None:
            return frozenset()
        plugged = pairs & {name for port in ports for name in self._device_names(port)}
        with self._lock:
            self._had |= plugged
            if self._watched and self._events == before:
                self._sure |= plugged
            return frozenset(pairs & self._had) - plugged
