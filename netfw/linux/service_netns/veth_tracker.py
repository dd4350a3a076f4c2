"""Pairs: which devices lost the switch, though they look as before.

A device that a switch makes goes with its port, or loses its carrier.  Of a pair the switch only
has the other end: when its port is removed both ends stay, and nothing passes any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from uuid import UUID

from netfw.drivers.events import Event, FeedLost, KeysChanged
from netfw.linux.ip.values import Link
from netfw.linux.service_netns.values import PAIR
from netfw.model.ids import PortId


class VethTracker:
    """Those that have a port by what the interface driver said, until it says that they changed.

    One that never had a port of the interface driver's is somebody else's, and is not lost.
    *watched* is whether the interface driver speaks up at all.  Safe for several threads.
    """

    def __init__(self, device_name: Callable[[PortId], str], *, watched: bool) -> None:
        self._device_name, self._watched = device_name, watched
        self._lock = threading.Lock()
        self._had: set[str] = set()
        self._sure: set[str] = set()
        self._heard = 0

    def hear(self, event: Event) -> None:
        """What the interface driver tells."""
        with self._lock:
            self._heard += 1
            if isinstance(event, FeedLost):
                self._sure.clear()
            elif isinstance(event, KeysChanged):
                ports = (PortId(key) for key in event.keys if isinstance(key, UUID))
                self._sure.difference_update(map(self._device_name, ports))

    def forget(self, device: str) -> None:
        """It is taken away on purpose."""
        with self._lock:
            self._had.discard(device)
            self._sure.discard(device)

    def lost(
        self, links: Iterable[Link], held: Callable[[], Collection[PortId] | None]
    ) -> frozenset[str]:
        """Those of *links* that had a port and have none; *held* is called if it has to be."""
        pairs = {link.name for link in links if link.kind == PAIR}
        with self._lock:
            if pairs <= self._sure:
                return frozenset()
            before = self._heard
        ports = held()
        if ports is None:
            return frozenset()
        plugged = pairs & set(map(self._device_name, ports))
        with self._lock:
            self._had |= plugged
            if self._watched and self._heard == before:
                self._sure |= plugged
            return frozenset(pairs & self._had) - plugged
