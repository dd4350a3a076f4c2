"""Wiring: whether the switch has admitted the ports of routers, cached until it changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from netfw.drivers.interface import Device
from netfw.drivers.values.events import Event, FeedLost, KeysChanged
from netfw.errors import BackendError
from netfw.model.values.ids import PortId

LOG = logging.getLogger(__name__)


class WiringCache:
    """Cache of ``Device.wired``, invalidated by events of the interface driver.  Thread-safe.

    :param device: reads the device of a port from the interface driver.
    :param watched: whether the interface driver sends events at all.
    :param on_change: called with a port whose last answer of `watch` is outdated, from a thread of
        the cache.
    """

    def __init__(
        self,
        device: Callable[[PortId], Device | None],
        on_change: Callable[[PortId], None],
        *,
        watched: bool,
    ) -> None:
        self._device, self._on_change, self._cached = device, on_change, watched
        self._lock = threading.Lock()
        self._unwired: dict[PortId, bool] = {}
        self._events = 0
        self._watched_ports: dict[PortId, bool | None] = {}
        """The last answer for each port; ``None``: it is being read for the first time."""
        self._unchecked: set[PortId] = set()
        self._pool: ThreadPoolExecutor | None = None

    def is_unwired(self, port: PortId) -> bool:
        """Return whether a port waits for the switch.

        :raises BackendUnavailable: the backend of the interface driver does not answer.
        """
        with self._lock:
            if port in self._unwired:
                return self._unwired[port]
            before = self._events
        device = self._device(port)
        unwired = device is not None and device.wired is False
        with self._lock:
            if self._cached and self._events == before:
                self._unwired[port] = unwired
        return unwired

    def watch(self, port: PortId) -> bool:
        """Return `is_unwired`; `on_change` follows when that changes, until `forget`."""
        with self._lock:
            self._watched_ports.setdefault(port, None)
        unwired = self.is_unwired(port)
        with self._lock:
            if port in self._watched_ports:
                self._watched_ports[port] = unwired
        return unwired

    def handle_event(self, event: Event) -> None:
        """Invalidate the ports of an event, and check those again that are watched.

        After a lost feed, the handler of that event watches all of them again.
        """
        with self._lock:
            self._events += 1
            if isinstance(event, FeedLost):
                self._unwired.clear()
                ports = {port for port, unwired in self._watched_ports.items() if unwired}
            elif isinstance(event, KeysChanged):
                ports = {PortId(key) for key in event.keys if isinstance(key, UUID)}
                for port in ports:
                    self._unwired.pop(port, None)
            else:
                return
            for port in (ports & self._watched_ports.keys()) - self._unchecked:
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(1, thread_name_prefix="netfw-router-wiring")
                try:
                    self._pool.submit(self._check_again, port)
                except RuntimeError as error:  # the next event or converge checks it
                    LOG.warning("router: port %s is not checked now: %s", port, error)
                    return
                self._unchecked.add(port)

    def close(self) -> None:
        """Stop reporting, and forget everything.  Idempotent."""
        with self._lock:
            pool, self._pool = self._pool, None
            self._unwired.clear()
            self._watched_ports.clear()
            self._unchecked.clear()
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def _check_again(self, port: PortId) -> None:
        """Report *port* if its answer changed: other changes of a port cause events, too."""
        with self._lock:
            self._unchecked.discard(port)
        try:
            unwired = self.is_unwired(port)
        except BackendError:
            return  # another event follows when the backend answers
        with self._lock:
            if self._watched_ports.get(port, unwired) is unwired:
                return
            self._watched_ports[port] = unwired
        self._on_change(port)

    def forget(self, port: PortId) -> None:
        """Forget a port that is gone."""
        with self._lock:
            self._unwired.pop(port, None)
            self._watched_ports.pop(port, None)
