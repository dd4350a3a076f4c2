"""Chores: what the loop does for the agent as a whole, and when."""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Mapping

from netfw.agents.common.retry_queue import RetryBackoff, RetryQueue
from netfw.errors import ConfigError, DriverCrashed, NetfwError
from netfw.plan import Outcome

LOG = logging.getLogger(__name__)


class LoopTask(enum.StrEnum):
    """Each says, when it fails, what the agent is waiting for."""

    BEGIN = "the host"
    WATCH = "the source's hints"
    PULL = "the source"
    LOOK = "the devices"
    EVERYTHING = "a complete pass"
    AUDIT = "an audit"
    HEARTBEAT = "the heartbeat"
    SEND = "reports"


class LoopTaskSchedule:
    """Chores that are due, now or after a pause; those that failed are tried again for ever."""

    def __init__(self, pauses: RetryBackoff) -> None:
        self._agenda: RetryQueue[LoopTask] = RetryQueue(pauses)
        self._agenda.add([LoopTask.BEGIN], 0.0)
        self._next: dict[LoopTask, float] = {}

    def __contains__(self, chore: LoopTask) -> bool:
        return chore in self._agenda

    def add(self, chore: LoopTask, now: float) -> None:
        """Do it at once, even if it failed just now."""
        self._agenda.add([chore], now)

    def nudge(self, chore: LoopTask, now: float) -> None:
        """Something calls for it: do it at once, unless it failed a moment ago."""
        self._agenda.requeue([chore], now)

    def add_new(self, chore: LoopTask, now: float) -> None:
        """Do it, unless it is to be done anyway."""
        if chore not in self._agenda:
            self._agenda.add([chore], now)

    def keep_times(self, now: float, every: Mapping[LoopTask, float]) -> None:
        """Have these done every so many seconds; 0: never."""
        for chore, seconds in every.items():
            if not seconds:
                self._next.pop(chore, None)
                continue
            due = min(self._next.get(chore, now + seconds), now + seconds)
            if due <= now:
                self.add_new(chore, now)
                due = now + seconds
            self._next[chore] = due

    def is_due(self, chore: LoopTask, now: float) -> bool:
        """Whether to do it now.  An audit is done by telling."""
        due = chore in self._agenda.due(now)
        if due and chore is LoopTask.AUDIT:
            self._agenda.record(Outcome(done=frozenset({chore})), now)
        return due

    def do(
        self, chore: LoopTask, action: Callable[[], None], now: Callable[[], float], *, keep: bool
    ) -> bool:
        """Do *action* if the chore is due.  Whether it may be taken for done.

        *keep*: doing it well is only a part of the chore, which `settle` ends.

        :raises ConfigError: the agent cannot go on.
        """
        if chore not in self._agenda:
            return True
        if not self.is_due(chore, now()):
            return False
        error: NetfwError | None = None
        try:
            action()
        except ConfigError:
            raise
        except NetfwError as exc:
            error = exc
        except Exception as exc:
            LOG.exception("a defect in %s", chore)
            error = DriverCrashed(f"{type(exc).__name__}: {exc}")
            error.__cause__ = exc
        if error is not None or not keep:
            self.settle(chore, error, now())
        return error is None

    def settle(self, chore: LoopTask, error: NetfwError | None, now: float) -> None:
        """It was done, or failed."""
        known = self.errors().get(chore)
        if error is None:
            if known is not None:
                LOG.warning("%s: all is well again", chore)
            self._agenda.record(Outcome(done=frozenset({chore})), now)
            return
        if known != str(error):
            LOG.warning("%s: %s; trying again", chore, error)
        self._agenda.record(Outcome(failed={chore: error}), now)

    def next_due(self, *, begun: bool, known: bool) -> float | None:
        """When there is something to do, given what has been done."""
        possible = set(self._agenda)
        if not begun:
            possible &= {LoopTask.BEGIN, LoopTask.WATCH}
        elif not known:
            possible -= {LoopTask.EVERYTHING}
        times = [self._agenda.when(chore) for chore in possible]
        return min([*times, *self._next.values()], default=None)

    def errors(self) -> Mapping[str, str]:
        """What failed and is tried again, with the reason."""
        return {str(chore): text for chore, text in self._agenda.degraded.items()}
