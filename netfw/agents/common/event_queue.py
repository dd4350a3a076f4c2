"""Inbox: what other threads tell the loop.  They only enqueue; the loop takes all at once."""

from __future__ import annotations

import threading

from attrs import frozen

from netfw.drivers.events import Event


@frozen
class PendingEvents:
    """What came in since the last look."""

    hinted: bool = False
    """The source has news."""
    resync: bool = False
    """Somebody asked to compare everything."""
    events: tuple[Event, ...] = ()


class EventQueue:
    """Hints and events of any thread, for the one thread of the loop.

    ``news`` is set while there is something to take.
    """

    def __init__(self) -> None:
        self.news = threading.Event()
        self._lock = threading.Lock()
        self._hinted = self._resync = False
        self._events: list[Event] = []

    def hint(self) -> None:
        """The source has news."""
        with self._lock:
            self._hinted = True
        self.news.set()

    def resync(self) -> None:
        """Compare everything."""
        with self._lock:
            self._resync = True
        self.news.set()

    def event(self, event: Event) -> None:
        """A driver or an extension says something."""
        with self._lock:
            self._events.append(event)
        self.news.set()

    def wake(self) -> None:
        """Have the loop look up."""
        self.news.set()

    def take(self) -> PendingEvents:
        """Everything that came in, once.  What comes in meanwhile is for the next time."""
        self.news.clear()
        with self._lock:
            heard = PendingEvents(self._hinted, self._resync, tuple(self._events))
            self._hinted = self._resync = False
            self._events = []
        return heard
