"""Loop: the one thread of an agent, whatever kind of agent it is.

Source and drivers only leave a note; the loop takes all notes at once, pulls what changed, and
has the work converged.  It waits and retries so that nothing else has to:

- Nothing is converged before the whole wanted state is known, and so nothing is taken for
  superfluous too early.  While the source is away, the agent goes on from what it knows.
- Each key that fails is tried again by itself, with growing pauses, for ever; it never causes
  work for others.
- What concerns everything (a lost change feed, an audit, a request to compare) is one complete
  pass, tried again with growing pauses like any key.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

from attrs import field, frozen

from netfw.agents.common.agent import ConvergeRequest, ConvergeResult, Counts, HostAgent
from netfw.agents.common.clock import Clock, SystemClock
from netfw.agents.common.event_queue import EventQueue, PendingEvents
from netfw.agents.common.loop_tasks import LoopTask, LoopTaskSchedule
from netfw.agents.common.replica import Replica
from netfw.agents.common.report_queue import ReportQueue
from netfw.agents.common.retry_queue import RetryBackoff, RetryQueue
from netfw.agents.common.status import AgentStatus, Publish
from netfw.drivers.events import Event, FeedLost
from netfw.drivers.state_source import StateSource
from netfw.errors import AgentMustEnd, BackendUnavailable, DriverCrashed, NetfwError
from netfw.plan import Outcome

LOG = logging.getLogger(__name__)
K = TypeVar("K", bound=Hashable)
_SHOWN = 3
_STATUS_PAUSE = 1.0


@frozen(kw_only=True)
class Intervals:
    """How often what is done that nothing calls for; 0: never."""

    report: float = 30.0
    audit: float = 600.0
    poll: float = 0.0
    pull: float = 30.0
    """Ask the source without a hint: hints can be lost."""
    pauses: RetryBackoff = field(factory=RetryBackoff)


class Loop(Generic[K]):
    """Keeps a host as its source wants it.

    ``run`` takes the calling thread until ``stop``.  ``hint``, ``resync``, ``wake``, ``stop``,
    ``status`` and ``wait_for`` may be used from any thread.
    """

    def __init__(
        self,
        source: StateSource,
        work: HostAgent[K],
        timing: Callable[[], Intervals] = Intervals,
        *,
        clock: Clock | None = None,
        publish: Publish | None = None,
    ) -> None:
        self._source, self._work = source, work
        self._timing = timing
        self._clock = clock or SystemClock()
        self._publish = publish
        self._inbox = EventQueue()
        self._outbox = ReportQueue()
        self._replica = Replica(source, work.interest)
        self._agenda: RetryQueue[K] = RetryQueue(timing().pauses)
        self._chores = LoopTaskSchedule(timing().pauses)
        self._stopped = self._ended = False
        self._begun = self._started = False
        self._reread = False
        self._unwatch: Callable[[], None] = lambda: None
        self._passes, self._last, self._total = 0, Counts(), Counts()
        self._status = AgentStatus(binary=work.binary, host=work.interest.host)
        self._published: tuple[float, AgentStatus] | None = None
        self._complaints: tuple[str, ...] = ()
        self._cautioned: set[str] = set()
        self._told = threading.Condition()

    # For other threads.

    def hint(self) -> None:
        """The source has news."""
        self._inbox.hint()

    def resync(self) -> None:
        """Compare everything: source and machine."""
        self._inbox.resync()

    def wake(self) -> None:
        """Look at the timing again: it may have changed."""
        self._inbox.wake()

    def stop(self) -> None:
        """End after the current pass; the machine stays as it is."""
        self._stopped = True
        self._inbox.wake()

    @property
    def status(self) -> AgentStatus:
        """How it fares, as of the last turn."""
        return self._status

    def wait_for(self, condition: Callable[[AgentStatus], bool], timeout: float) -> bool:
        """Wait until the status is so; whether it became so, in time and before the loop ended."""
        with self._told:
            self._told.wait_for(lambda: self._ended or condition(self._status), timeout)
            return condition(self._status)

    def wait_for_end(self, timeout: float) -> bool:
        """Wait until it has ended; whether it has, in time."""
        with self._told:
            return self._told.wait_for(lambda: self._ended, timeout)

    # The loop's own thread.

    def run(self) -> None:
        """Work until `stop`.

        :raises ConfigError: the host contradicts the configuration.
        :raises AgentMustEnd: what was heard is to end it.
        """
        self._work.watch(self._inbox.event)
        self._chores.add(LoopTask.WATCH, self._clock.now())
        try:
            while not self._stopped:
                self.turn()
                if not self._stopped:
                    self._clock.wait(self._inbox.news, self._pause())
            self._send()
        finally:
            self._unwatch()
            with self._told:
                self._ended = True
                self._told.notify_all()

    def turn(self) -> None:
        """Do everything that is due.

        :raises ConfigError: the host contradicts the configuration.
        :raises AgentMustEnd: what was heard is to end it.
        """
        self._do(LoopTask.WATCH, self._watch)
        self._note(self._inbox.take())
        if self._begun or self._do(LoopTask.BEGIN, self._begin):
            self._do(LoopTask.PULL, self._pull)
            self._do(LoopTask.LOOK, self._look)
            if self._replica.known:
                self._converge_due()
                self._outbox.add(self._work.reports())
            self._do(LoopTask.HEARTBEAT, self._heartbeat)
            self._send()
        self._publish_status()

    def _note(self, heard: PendingEvents) -> None:
        now, timing = self._clock.now(), self._timing()
        self._chores.keep_times(
            now,
            {
                LoopTask.HEARTBEAT: timing.report,
                LoopTask.AUDIT: timing.audit,
                LoopTask.LOOK: timing.poll,
                LoopTask.PULL: timing.pull,
            },
        )
        if heard.hinted:
            self._chores.add(LoopTask.PULL, now)
        if heard.resync or self._chores.is_due(LoopTask.AUDIT, now):
            LOG.info("comparing everything")
            self._reread = True
            self._chores.add(LoopTask.EVERYTHING, now)
            if heard.resync:
                self._replica.resync()
                self._chores.add(LoopTask.PULL, now)
        for lost in (event for event in heard.events if isinstance(event, FeedLost)):
            LOG.warning("looking at everything again: %s", lost.reason)
            self._chores.nudge(LoopTask.EVERYTHING, now)
        if self._begun and heard.events:
            self._handle_events(
                [event for event in heard.events if not isinstance(event, FeedLost)]
            )

    def _handle_events(self, events: Sequence[Event]) -> None:
        now = self._clock.now()
        try:
            keys = self._work.handle_events(events)
        except AgentMustEnd:
            raise
        except NetfwError as exc:
            LOG.warning("what was heard cannot be looked at (%s): looking at all of it", exc)
            self._chores.add_new(LoopTask.LOOK, now)
        except Exception:
            LOG.exception("a defect of the agent itself, in hearing %s", events)
            self._chores.add_new(LoopTask.EVERYTHING, now)
        else:
            self._agenda.requeue(keys, now)

    def _watch(self) -> None:
        self._unwatch = self._source.watch(self._work.interest, self._inbox.hint)
        self._inbox.hint()  # what came before went unheard

    def _begin(self) -> None:
        self._work.begin()
        self._begun = True
        now = self._clock.now()
        for chore in (LoopTask.PULL, LoopTask.EVERYTHING, LoopTask.HEARTBEAT):
            self._chores.add(chore, now)

    def _pull(self) -> None:
        change = self._replica.pull()
        self._complaints = self._source.errors()
        now = self._clock.now()
        if change.snapshot:
            self._work.resend_reports()
        try:
            keys = self._work.apply_delta(change)
        except Exception:
            self._replica.forget()  # it is not known how much of the change was taken over
            raise
        if change:
            LOG.info(
                "the source put %d and dropped %d, which concerns %d",
                len(change.put), len(change.drop), len(keys),
            )  # fmt: skip
        self._agenda.add(keys, now)

    def _look(self) -> None:
        self._agenda.requeue(self._work.rescan(), self._clock.now())

    def _converge_due(self) -> None:
        now = self._clock.now()
        complete = self._chores.is_due(LoopTask.EVERYTHING, now)
        if complete and not self._do(LoopTask.EVERYTHING, self._look, keep=True):
            return
        keys = self._agenda.due(now)
        if not (keys or complete):
            return
        task = ConvergeRequest(keys=keys, complete=complete, reread=complete and self._reread)
        passed, error = self._converge(task)
        self._agenda.record(passed.outcome, self._clock.now())
        if complete:
            self._chores.settle(LoopTask.EVERYTHING, error, self._clock.now())
            self._reread = self._reread and error is not None
        self._passes += 1
        self._last, self._total = passed.counts, self._total + passed.counts
        self._log(passed)

    def _converge(self, task: ConvergeRequest[K]) -> tuple[ConvergeResult[K], NetfwError | None]:
        try:
            passed = self._work.converge(task)
        except NetfwError as exc:
            error = exc
        except Exception as exc:
            LOG.exception("a defect of the agent itself")
            error = DriverCrashed(f"{self._work.binary}: {type(exc).__name__}: {exc}")
        else:
            return passed, _nobody_answered(passed.outcome)
        failed: Outcome[K] = Outcome(failed=dict.fromkeys(task.keys, error))
        return ConvergeResult(outcome=failed, counts=Counts(failed=len(task.keys))), error

    def _heartbeat(self) -> None:
        self._published = None  # so that the status is as young as the agent's last breath
        if self._source.report((self._work.heartbeat(start=not self._started),)).resync:
            LOG.warning("the source took this agent for dead")
            self._inbox.resync()
        self._started = True

    def _send(self) -> None:
        if len(self._outbox):
            self._chores.add_new(LoopTask.SEND, self._clock.now())
            self._do(LoopTask.SEND, lambda: self._outbox.send(self._source))

    def _do(self, chore: LoopTask, action: Callable[[], None], *, keep: bool = False) -> bool:
        """Do a chore that is due; whether it was done, or needed not be.  Failing is no end."""
        return self._chores.do(chore, action, self._clock.now, keep=keep)

    def _pause(self) -> float | None:
        """How long to wait; nothing that could be done without its predecessor counts."""
        times = [self._chores.next_due(begun=self._begun, known=self._replica.known)]
        if self._begun and self._replica.known:
            times.append(self._agenda.next_due())
        if self._published is None or self._published[1] != self._status:
            times.append((self._published[0] if self._published else 0) + _STATUS_PAUSE)
        due = min((time for time in times if time is not None), default=None)
        return None if due is None else max(0.0, due - self._clock.now())

    def _publish_status(self) -> None:
        now = self._clock.now()
        oldest = self._agenda.oldest()
        status = AgentStatus(
            binary=self._work.binary,
            host=self._work.interest.host,
            ready=self._replica.known
            and oldest is None
            and LoopTask.EVERYTHING not in self._chores,
            lag=0.0 if oldest is None else now - oldest,
            errors=self._troubles(),
            warnings=self._work.warnings() if self._replica.known else {},
            degraded=_texts(self._agenda.degraded),
            waiting=_texts(self._agenda.waiting),
            passes=self._passes,
            last=self._last,
            total=self._total,
            counts=self._work.counts(),
            unsent=len(self._outbox),
        )
        for name in status.warnings.keys() - self._cautioned:
            LOG.warning("%s: %s", name, status.warnings[name])
            self._cautioned.add(name)
        if status.ready and not self._status.ready:
            LOG.info("ready: everything that is wanted here is so")
        with self._told:
            self._status = status
            self._told.notify_all()
        self._publish_at(now)

    def _troubles(self) -> dict[str, str]:
        found = dict(self._chores.errors())
        if said := self._complaints:
            more = f" and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
            found.setdefault(LoopTask.PULL, f"{'; '.join(said[:_SHOWN])}{more}")
        return found

    def _publish_at(self, now: float) -> None:
        """Once a second at most, except that becoming ready, or not, is told at once."""
        if self._published is not None:
            at, former = self._published
            urgent = former.ready != self._status.ready
            if not urgent and (former == self._status or now - at < _STATUS_PAUSE):
                return
        if self._publish is not None:
            self._publish(self._status)
        self._published = (now, self._status)

    def _log(self, passed: ConvergeResult[K]) -> None:
        LOG.info("pass %d: %s", self._passes, passed.counts)
        by_reason: dict[str, list[str]] = {}
        for key, error in passed.outcome.failed.items():
            by_reason.setdefault(str(error), []).append(str(key))
            if error.__cause__ is not None:
                LOG.debug("%s", key, exc_info=error)
        for reason, keys in by_reason.items():
            more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
            LOG.warning("%s%s: %s; tried again later", ", ".join(keys[:_SHOWN]), more, reason)


def _nobody_answered(outcome: Outcome[K]) -> NetfwError | None:
    """Why nothing was done at all, when nobody answered."""
    if outcome.done or outcome.waiting:
        return None
    errors = outcome.failed.values()
    return next((error for error in errors if isinstance(error, BackendUnavailable)), None)


def _texts(mapping: Mapping[K, str]) -> dict[str, str]:
    return {str(key): text for key, text in mapping.items()}
