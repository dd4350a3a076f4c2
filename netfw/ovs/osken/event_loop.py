"""A thread that handles the messages and changes of state of a connection in their order."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.ovs.openflow.messages import OpenFlowMessage

LOG = logging.getLogger(__name__)
_MOST = 1000
"""Messages that wait; more are dropped."""


class EventLoop:
    """Calls *receive* with messages and *change* with changes of state, on its own thread.

    :raises BackendUnavailable: the machine has no thread left.
    """

    def __init__(
        self, name: str, receive: Callable[[OpenFlowMessage], None], change: Callable[[bool], None]
    ) -> None:
        self._name, self._receive, self._change = name, receive, change
        self._events: deque[OpenFlowMessage | bool] = deque()
        self._condition = threading.Condition()
        self._closing = False
        self._dropped = 0
        self._thread = start_daemon_thread(name, f"{name}: no handler can be called", self._run)

    def add_message(self, message: OpenFlowMessage) -> None:
        """Add *message*, unless too many wait already."""
        with self._condition:
            if len(self._events) >= _MOST:
                self._dropped += 1
                return
            self._events.append(message)
            self._condition.notify()

    def add_change(self, up: bool) -> None:
        """Add a change of state."""
        with self._condition:
            self._events.append(up)
            self._condition.notify()

    def close(self) -> None:
        """Stop the thread, which finishes what it handles now."""
        with self._condition:
            self._closing = True
            self._condition.notify()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while (event := self._next()) is not None:
            try:
                if isinstance(event, bool):
                    self._change(event)
                else:
                    self._receive(event)
            except Exception:
                LOG.exception("%s: an event was not handled", self._name)

    def _next(self) -> OpenFlowMessage | bool | None:
        with self._condition:
            if self._dropped and not self._events:
                LOG.warning("%s: handlers are slow, dropped %d messages", self._name, self._dropped)
                self._dropped = 0
            self._condition.wait_for(lambda: self._closing or self._events)
            return None if self._closing else self._events.popleft()
