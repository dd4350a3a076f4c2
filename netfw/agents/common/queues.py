"""Queues of the loop: events from other threads, and reports to the source."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable

from attrs import frozen

from netfw.drivers.state_source import StateSource
from netfw.drivers.values.events import Event, KeysChanged, ProcessDied
from netfw.drivers.values.reports import Heartbeat, Report


@frozen
class PendingEvents:
    """Everything queued since the last `EventQueue.take`."""

    notified: bool = False
    """The source has changes."""
    resync: bool = False
    """A full comparison was requested."""
    events: tuple[Event, ...] = ()


class EventQueue:
    """Notifications and events of any thread, for the one thread of the loop.

    ``ready`` is set while there is something to take.
    """

    def __init__(self) -> None:
        self.ready = threading.Event()
        self._lock = threading.Lock()
        self._notified = self._resync = False
        self._events: list[Event] = []

    def notify(self) -> None:
        """Queue a notification: the source has changes."""
        with self._lock:
            self._notified = True
        self.ready.set()

    def resync(self) -> None:
        """Queue a request to compare everything."""
        with self._lock:
            self._resync = True
        self.ready.set()

    def event(self, event: Event) -> None:
        """Queue an event of a driver or an extension."""
        with self._lock:
            self._events.append(event)
        self.ready.set()

    def wake(self) -> None:
        """Wake the loop without an event."""
        self.ready.set()

    def take(self) -> PendingEvents:
        """Return everything queued; what is queued meanwhile is for the next call."""
        self.ready.clear()
        with self._lock:
            pending = PendingEvents(self._notified, self._resync, tuple(self._events))
            self._notified = self._resync = False
            self._events = []
        return pending


def delays_of(events: Iterable[Event]) -> dict[Hashable, float]:
    """Return the delay of each key that only delayed events name, or the death of a process."""
    changes = [event for event in events if isinstance(event, KeysChanged)]
    delayed = [event for event in changes if event.delay]
    others = (each for each in changes if not each.delay and not isinstance(each, ProcessDied))
    prompt = {key for event in others for key in event.keys}
    return {key: event.delay for event in delayed for key in event.keys - prompt}


class ReportQueue:
    """The newest report on each subject, in the order in which the subjects were first queued.

    It does not grow during an outage of the source: a later report on a subject replaces the
    earlier one.
    """

    def __init__(self) -> None:
        self._reports: dict[Hashable, Report] = {}

    def __len__(self) -> int:
        return len(self._reports)

    def add(self, reports: Iterable[Report]) -> None:
        """Queue *reports* until they are sent."""
        for report in reports:
            self._reports[_subject(report)] = report

    def send(self, source: StateSource) -> None:
        """Send everything in one message.

        :raises BackendUnavailable: the source may not have received it; everything stays queued.
        """
        if self._reports:
            source.report(tuple(self._reports.values()))
            self._reports.clear()


def _subject(report: Report) -> Hashable:
    if isinstance(report, Heartbeat):
        return Heartbeat
    return type(report), report.ref, report.service
