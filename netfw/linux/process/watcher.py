"""Watcher: one thread that waits for the ends of all processes, and for restart timers."""

from __future__ import annotations

import heapq
import os
import selectors
import threading
import time
from collections.abc import Callable
from itertools import count

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.errors import BackendUnavailable

Action = Callable[[], None]


class Watcher:
    """Calls actions when descriptors become readable, or at a time; actions must be short.

    1. A descriptor is watched until it becomes readable once, or until `forget`.
    2. After `forget` returns, the action may still run once, if it was about to.
    3. After `close` no action is called, and the thread has ended.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._timers: list[tuple[float, int, Action]] = []
        self._numbers = count()
        self._selector = selectors.DefaultSelector()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._closed = False
        what = "processes cannot be supervised"
        try:
            self._thread = start_daemon_thread("netfw-processes", what, self._run)
        except BackendUnavailable:
            self._selector.close()
            os.close(self._wake)
            raise

    def watch(self, descriptor: int, action: Action) -> None:
        with self._lock:
            if not self._closed:
                self._selector.register(descriptor, selectors.EVENT_READ, action)

    def forget(self, descriptor: int) -> None:
        with self._lock:
            if not self._closed and descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)

    def call_later(self, seconds: float, action: Action) -> None:
        with self._lock:
            if self._closed:
                return
            due = time.monotonic() + seconds
            heapq.heappush(self._timers, (due, next(self._numbers), action))
            os.eventfd_write(self._wake, 1)  # after `close`, another file may have the number

    def close(self) -> None:
        """End the thread.  Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        self._selector.close()
        os.close(self._wake)

    def _run(self) -> None:
        while not self._closed:
            ready = self._selector.select(self._next_due())
            with self._lock:
                actions = [self._take(key) for key, _ in ready] + self._due()
            for action in actions:
                if action is not None and not self._closed:
                    action()

    def _next_due(self) -> float | None:
        with self._lock:
            return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None

    def _take(self, key: selectors.SelectorKey) -> Action | None:
        if key.fd == self._wake:
            os.eventfd_read(self._wake)
            return None
        registered = self._selector.get_map().get(key.fd)
        if registered is None or registered.data is not key.data:
            return None
        self._selector.unregister(key.fd)
        action: Action = key.data
        return action

    def _due(self) -> list[Action | None]:
        due: list[Action | None] = []
        while self._timers and self._timers[0][0] <= time.monotonic():
            due.append(heapq.heappop(self._timers)[2])
        return due
