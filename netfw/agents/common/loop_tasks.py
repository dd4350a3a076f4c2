"""Task schedule: what the loop does for the agent as a whole, and when."""

from __future__ import annotations

import enum
import logging
import random
from collections.abc import Callable, Iterable, Mapping

from netfw.agents.common.retry_queue import RetryBackoff, RetryQueue
from netfw.drivers.values.events import BackendRecovered, FeedLost
from netfw.errors import ConfigError, DriverCrashed, NetfwError
from netfw.plan import Outcome

LOG = logging.getLogger(__name__)
_PULL_PAUSE_MAX = 4.0
"""Seconds until a failed pull is retried at most; up to half is taken off at random."""
_RECOVERED_PAUSE = 0.05
"""Seconds between two attempts at least, however often a backend answers again."""


class LoopTask(enum.StrEnum):
    """A task of the loop; its value names what the agent waits for when it fails."""

    LOCK = "the lock against a second agent"
    START = "the host"
    WATCH = "the source's notifications"
    PULL = "the source"
    RESCAN = "the devices"
    EVERYTHING = "a complete pass"
    AUDIT = "an audit"
    HEARTBEAT = "the heartbeat"
    SEND = "reports"


class LoopTaskSchedule:
    """Tasks that are due, now or after a pause; failed ones are retried for ever."""

    def __init__(self, pauses: RetryBackoff) -> None:
        self._queue: RetryQueue[LoopTask] = RetryQueue(pauses)
        self._queue.add([LoopTask.LOCK, LoopTask.START], 0.0)
        self._next: dict[LoopTask, float] = {}

    def __contains__(self, task: LoopTask) -> bool:
        return task in self._queue

    def add(self, task: LoopTask, now: float) -> None:
        """Schedule a task for now, even if it failed just now."""
        self._queue.add([task], now)

    def requeue(self, task: LoopTask, now: float) -> None:
        """Schedule a task for now, unless it failed a moment ago."""
        self._queue.requeue([task], now)

    def observe_again(self, lost: FeedLost, now: float) -> None:
        """Schedule a complete pass after *lost*, and the locks that are not acquired yet."""
        tasks = {LoopTask.EVERYTHING, LoopTask.LOCK} & {LoopTask.EVERYTHING, *self._queue}
        pause = _RECOVERED_PAUSE if isinstance(lost, BackendRecovered) else None
        self._queue.requeue(tasks, now, pause=pause)

    def add_new(self, task: LoopTask, now: float) -> None:
        """Schedule a task, unless it is scheduled already."""
        if task not in self._queue:
            self._queue.add([task], now)

    def schedule_periodic(self, now: float, every: Mapping[LoopTask, float]) -> None:
        """Schedule tasks every so many seconds; 0: never."""
        for task, seconds in every.items():
            if not seconds:
                self._next.pop(task, None)
                continue
            due = min(self._next.get(task, now + seconds), now + seconds)
            if due <= now:
                self.add_new(task, now)
                due = now + seconds
            self._next[task] = due

    def is_due(self, task: LoopTask, now: float) -> bool:
        """Return whether a task is due now.  An audit counts as done with that."""
        due = task in self._queue.due(now)
        if due and task is LoopTask.AUDIT:
            self._queue.record(Outcome(done=frozenset({task})), now)
        return due

    def do(
        self, task: LoopTask, action: Callable[[], None], now: Callable[[], float], *, keep: bool
    ) -> bool:
        """Call *action* if the task is due; return whether the task is done or was not scheduled.

        *keep*: the action is only a part of the task, which `record` ends.

        :raises ConfigError: the agent has to stop.
        """
        if task not in self._queue:
            return True
        if not self.is_due(task, now()):
            return False
        error: NetfwError | None = None
        try:
            action()
        except ConfigError:
            raise
        except NetfwError as exc:
            error = exc
        except Exception as exc:
            LOG.exception("%s: internal error", task)
            error = DriverCrashed(f"{type(exc).__name__}: {exc}")
            error.__cause__ = exc
        if error is not None or not keep:
            self.record(task, error, now())
        return error is None

    def record(self, task: LoopTask, error: NetfwError | None, now: float) -> None:
        """Record that a task was done, or failed."""
        known = self.errors().get(task)
        if error is None:
            if known is not None:
                LOG.warning("%s: recovered", task)
            self._queue.record(Outcome(done=frozenset({task})), now)
            return
        if known != str(error):
            LOG.warning("%s: %s; retrying", task, error)
        self._queue.record(Outcome(failed={task: error}), now)
        if task is LoopTask.PULL:
            self._queue.advance(task, now + random.uniform(0.5, 1.0) * _PULL_PAUSE_MAX)

    def next_due(self, *, started: bool, known: bool) -> float | None:
        """Return when the next task is due that can be done already."""
        possible = set(self._queue)
        if LoopTask.LOCK in possible:
            possible = {LoopTask.LOCK}
        elif not started:
            possible &= {LoopTask.START, LoopTask.WATCH}
        elif not known:
            possible -= {LoopTask.EVERYTHING}
        times = [self._queue.when(task) for task in possible]
        return min([*times, *self._next.values()], default=None)

    def has_failed(self, tasks: Iterable[LoopTask]) -> bool:
        """Return whether one of *tasks* failed and is retried."""
        return not self._queue.degraded.keys().isdisjoint(tasks)

    def errors(self) -> Mapping[str, str]:
        """Return the tasks that failed and are retried, with the reason."""
        return {str(task): text for task, text in self._queue.degraded.items()}
