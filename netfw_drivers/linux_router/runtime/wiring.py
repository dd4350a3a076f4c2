"""Wiring: whether the switch has admitted the ports of routers, cached until it changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from netfw.drivers.events import Event, FeedLost, KeysChanged
from netfw.drivers.interface import Device
from netfw.errors import BackendError
from netfw.model.ids import PortId

LOG = logging.getLogger(__name__)


class WiringCache:
    """Cache of ``Device.wired``, invalidated by events of the interface driver.  Thread-safe.

    :param device: reads the device of a port from the interface driver.
    :param watched: whether the interface driver sends events at all.
    :param on_wired: called with the keys that waited for a port once it is wired, from a thread of
        the cache.
    """

    def __init__(
        self,
        device: Callable[[PortId], Device | None],
        on_wired: Callable[[frozenset[Hashable]], None],
        *,
        watched: bool,
    ) -> None:
        self._device, self._on_wired, self._watched = device, on_wired, watched
        self._lock = threading.Lock()
        self._wired: dict[PortId, bool | None] = {}
        self._events = 0
        self._waiting: dict[PortId, frozenset[Hashable]] = {}
        self._pool: ThreadPoolExecutor | None = None

    def is_unwired(self, port: PortId, keys: frozenset[Hashable]) -> bool:
        """Return whether a port waits for the switch; if so, `on_wired` follows.

        :raises BackendUnavailable: the backend of the interface driver does not answer.
        """
        with self._lock:
            self._waiting[port] = self._waiting.get(port, frozenset()) | keys
        wired = self._read(port)
        if wired is False:
            return True
        with self._lock:
            self._waiting.pop(port, None)
        return False

    def handle_event(self, event: Event) -> None:
        """Invalidate the ports of an event, and check those again that keys wait for."""
        with self._lock:
            self._events += 1
            if isinstance(event, FeedLost):
                self._wired.clear()
                ports = set(self._waiting)
            elif isinstance(event, KeysChanged):
                ports = {PortId(key) for key in event.keys if isinstance(key, UUID)}
                for port in ports:
                    self._wired.pop(port, None)
            else:
                return
            for port in ports & self._waiting.keys():
                self._submit(port)

    def close(self) -> None:
        """Stop reporting, and forget everything.  Idempotent."""
        with self._lock:
            pool, self._pool = self._pool, None
            self._wired.clear()
            self._waiting.clear()
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def _submit(self, port: PortId) -> None:
        """Have a port checked by the thread; without one, the next event or converge checks it."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="netfw-router-wiring")
        keys = self._waiting.pop(port)
        try:
            self._pool.submit(self._check_again, port, keys)
        except RuntimeError as error:
            self._waiting[port] = keys
            LOG.warning("router: port %s is not checked now: %s", port, error)

    def _check_again(self, port: PortId, keys: frozenset[Hashable]) -> None:
        """Report *keys* if the port is wired: other changes of a port cause events, too."""
        try:
            unwired = self.is_unwired(port, keys)
        except BackendError:
            return  # it waits on, and another event follows when the backend answers
        if not unwired:
            self._on_wired(keys)

    def _read(self, port: PortId) -> bool | None:
        with self._lock:
            if port in self._wired:
                return self._wired[port]
            before = self._events
        device = self._device(port)
        wired = None if device is None else device.wired
        with self._lock:
            if self._watched and self._events == before:
                self._wired[port] = wired
        return wired

    def forget(self, port: PortId) -> None:
        """Forget a port that is gone."""
        with self._lock:
            self._wired.pop(port, None)
            self._waiting.pop(port, None)
