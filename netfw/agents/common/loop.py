"""Loop: the one thread of an agent, the same for every kind of agent.

Source and drivers only enqueue events; the loop takes all events at once, pulls the changes of the
source, and has the agent converge them.  Waiting and retrying is done here only:

- Nothing is read or reported before the locks of the host are acquired, so that of two agents only
  one reports.
- Nothing is converged before the full desired state is known, so that nothing is taken for garbage
  too early.  During an outage of the source, the agent works from its replica.
- Each failed key is retried alone, with back-off, for ever; it never causes work for other keys.
- What concerns everything (a lost change feed, an audit, a resync) is one complete pass, retried
  with back-off like any key.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from typing import Generic, TypeVar

from attrs import field, frozen

from netfw import tracing
from netfw.agents.common.agent import ConvergeRequest, ConvergeResult, Counts, HostAgent
from netfw.agents.common.agent_status_publisher import StatusPublisher
from netfw.agents.common.clock import Clock, SystemClock
from netfw.agents.common.heartbeat import with_backlog
from netfw.agents.common.loop_observer import LoopObserver
from netfw.agents.common.loop_tasks import LoopTask, LoopTaskSchedule
from netfw.agents.common.pass_log import log_pass
from netfw.agents.common.queues import EventQueue, PendingEvents, ReportQueue, delays_of
from netfw.agents.common.replica import Replica
from netfw.agents.common.retry_queue import RetryBackoff, RetryQueue
from netfw.agents.common.status import AgentStatus, Publish
from netfw.drivers.state_source import StateSource
from netfw.drivers.values.events import Event, FeedLost
from netfw.errors import AgentMustEnd, BackendUnavailable, DriverCrashed, NetfwError
from netfw.model.values.text_validation import render_names
from netfw.plan import Outcome

LOG = logging.getLogger(__name__)
K = TypeVar("K", bound=Hashable)
_MAX_QUOTED = 3
_SOURCE_TASKS = (LoopTask.PULL, LoopTask.HEARTBEAT, LoopTask.SEND)


@frozen(kw_only=True)
class Intervals:
    """Seconds between periodic tasks, 0: never; and how they are done."""

    report: float = 30.0
    log_reports: bool = False
    """Log each heartbeat that the source has accepted."""
    audit: float = 600.0
    poll: float = 0.0
    pull: float = 30.0
    """Pull without a notification: notifications can be lost."""
    pauses: RetryBackoff = field(factory=RetryBackoff)


class Loop(Generic[K]):
    """Keeps a host as its source describes it.

    ``run`` takes the calling thread until ``stop``.  ``notify``, ``resync``, ``wake``, ``stop``,
    ``status`` and ``wait_for`` may be used from any thread.
    """

    def __init__(
        self,
        source: StateSource,
        agent: HostAgent[K],
        timing: Callable[[], Intervals] = Intervals,
        *,
        clock: Clock | None = None,
        publish: Publish | None = None,
        observer: LoopObserver | None = None,
    ) -> None:
        self._source, self._agent = source, agent
        self._timing = timing
        self._clock = clock or SystemClock()
        self._observer = observer or LoopObserver()
        self._events = EventQueue()
        self._reports = ReportQueue()
        self._replica = Replica(source, agent.subscription, agent.resources)
        self._retries: RetryQueue[K] = RetryQueue(timing().pauses)
        self._tasks = LoopTaskSchedule(timing().pauses)
        self._stopped = False
        self._turn_began: float | None = None
        self._traced: tuple[str, ...] = ()
        """Trace context of the last pass, which reports follow from."""
        self._started = self._announced = False
        self._is_established = False
        """The events of the first pass were taken: it may have set up connections."""
        self._start_counts: Mapping[str, int] | None = None
        """Counts of the first heartbeat, until the agent is ready for the first time."""
        self._reread = False
        self._unwatch: Callable[[], None] = lambda: None
        self._passes, self._last, self._total = 0, Counts(), Counts()
        initial = AgentStatus(binary=agent.binary, host=agent.subscription.host)
        self._publisher = StatusPublisher(initial, publish)
        self._source_errors: tuple[str, ...] = ()

    # For other threads.

    def notify(self) -> None:
        """Pull from the source: it has changes."""
        self._events.notify()

    def resync(self) -> None:
        """Compare everything: source and machine."""
        self._events.resync()

    def wake(self) -> None:
        """Read the intervals again: they may have changed."""
        self._events.wake()

    def stop(self) -> None:
        """Stop after the current pass; the machine stays as it is."""
        self._stopped = True
        self._events.wake()

    @property
    def status(self) -> AgentStatus:
        """The status of the agent, as of the last turn."""
        return self._publisher.status

    def wait_for(self, condition: Callable[[AgentStatus], bool], timeout: float) -> bool:
        """Wait for a status; return whether it came in time and before the loop ended."""
        return self._publisher.wait_for(condition, timeout)

    def wait_for_end(self, timeout: float) -> bool:
        """Wait for the end of the loop; return whether it came in time."""
        return self._publisher.wait_for_end(timeout)

    def busy_for(self) -> float:
        """Return the seconds that the current turn has taken; 0: the loop waits for an event."""
        began = self._turn_began
        return 0.0 if began is None else self._clock.now() - began

    # The loop's own thread.

    def run(self) -> None:
        """Work until `stop`.

        :raises ConfigError: the host contradicts the configuration.
        :raises AgentMustEnd: an event ends the agent.
        """
        self._agent.watch(self._events.event)
        self._tasks.add(LoopTask.WATCH, self._clock.now())
        try:
            while not self._stopped:
                self.turn()
                if not self._stopped:
                    self._clock.wait(self._events.ready, self._pause())
            self._send()
        finally:
            self._unwatch()
            self._publisher.end()

    def turn(self) -> None:
        """Do everything that is due.

        :raises ConfigError: the host contradicts the configuration.
        :raises AgentMustEnd: an event ends the agent.
        """
        self._turn_began = self._clock.now()
        locked = self._do(LoopTask.LOCK, self._agent.acquire_locks)
        if locked:
            self._do(LoopTask.WATCH, self._watch)
        self._take_events(self._events.take())
        if locked and (self._started or self._do(LoopTask.START, self._start)):
            self._do(LoopTask.PULL, self._pull)
            if not self._replica.known:
                self._publish_status()
            self._do(LoopTask.RESCAN, self._rescan)
            if self._replica.known:
                self._converge_due()
                self._reports.add(self._agent.reports())
            self._do(LoopTask.HEARTBEAT, self._heartbeat)
            self._send()
        self._publish_status()
        self._turn_began = None

    def _take_events(self, pending: PendingEvents) -> None:
        now, timing = self._clock.now(), self._timing()
        self._tasks.schedule_periodic(
            now,
            {
                LoopTask.HEARTBEAT: timing.report,
                LoopTask.AUDIT: timing.audit,
                LoopTask.RESCAN: timing.poll,
                LoopTask.PULL: timing.pull,
            },
        )
        if pending.notified:
            self._tasks.add(LoopTask.PULL, now)
        if pending.resync or self._tasks.is_due(LoopTask.AUDIT, now):
            LOG.info("%s: comparing everything", "resync" if pending.resync else "audit")
            self._reread = True
            self._tasks.add(LoopTask.EVERYTHING, now)
            if pending.resync:
                self._replica.resync()
                self._tasks.add(LoopTask.PULL, now)
        level = logging.WARNING if self._is_established else logging.INFO
        self._is_established = self._passes > 0
        for lost in (event for event in pending.events if isinstance(event, FeedLost)):
            LOG.log(level, "change feed lost (%s); scheduling a complete pass", lost.reason)
            self._tasks.observe_again(lost, now)
        if self._started and pending.events:
            self._handle_events(
                [event for event in pending.events if not isinstance(event, FeedLost)]
            )

    def _handle_events(self, events: Sequence[Event]) -> None:
        now = self._clock.now()
        try:
            keys = self._agent.handle_events(events)
        except AgentMustEnd:
            raise
        except NetfwError as exc:
            LOG.warning("event handling failed (%s); scheduling a full rescan", exc)
            self._tasks.add_new(LoopTask.RESCAN, now)
        except Exception:
            LOG.exception("event handling failed: internal error, events %s", events)
            self._tasks.add_new(LoopTask.EVERYTHING, now)
        else:
            delays = delays_of(events)
            self._retries.requeue(keys - delays.keys(), now)
            self._retries.add_later({k: now + delays[k] for k in keys & delays.keys()}, now)

    def _watch(self) -> None:
        self._unwatch = self._source.watch(self._agent.subscription, self._events.notify)
        self._events.notify()  # earlier changes were not announced

    def _start(self) -> None:
        self._agent.start()
        self._started = True
        for task in (LoopTask.PULL, LoopTask.EVERYTHING, LoopTask.HEARTBEAT):
            self._tasks.add(task, self._clock.now())
        self._publish_status()

    def _pull(self) -> None:
        change = self._replica.pull()
        try:
            if change.snapshot:
                self._agent.resend_reports()
            keys = self._agent.apply_delta(change)
        except Exception:
            self._replica.reset()  # part of the change may have been applied
            self._tasks.add_new(LoopTask.EVERYTHING, self._clock.now())
            raise
        now = self._clock.now()
        self._retries.add(keys, now)
        for task in (LoopTask.HEARTBEAT, LoopTask.SEND):  # the source answers
            if task in self._tasks:
                self._tasks.requeue(task, now)
        if change:
            LOG.info(
                "source: %d changed, %d removed; %d keys to converge",
                len(change.changes) - change.dropped, change.dropped, len(keys),
            )  # fmt: skip
        if not keys:
            tracing.take_followed()
        self._observer.pulled()
        self._source_errors = self._source.errors()

    def _rescan(self) -> None:
        self._retries.requeue(self._agent.rescan(), self._clock.now())

    def _converge_due(self) -> None:
        now = self._clock.now()
        complete = self._tasks.is_due(LoopTask.EVERYTHING, now)
        if complete and not self._do(LoopTask.EVERYTHING, self._rescan, keep=True):
            return
        keys = self._retries.due(self._clock.now())  # with those that the rescan has just found
        if not (keys or complete):
            return
        task = ConvergeRequest(keys=keys, complete=complete, reread=complete and self._reread)
        if not complete:
            self._send_early(keys)
        began = self._clock.now()
        passed, error = self._converge(task)
        self._observer.passed(passed, self._clock.now() - began)
        self._retries.record(passed.outcome, self._clock.now())
        if complete:
            self._tasks.record(LoopTask.EVERYTHING, error, self._clock.now())
            self._reread = self._reread and error is not None
        self._passes += 1
        self._last, self._total = passed.counts, self._total + passed.counts
        log_pass(self._passes, passed)

    def _converge(self, task: ConvergeRequest[K]) -> tuple[ConvergeResult[K], NetfwError | None]:
        try:
            with tracing.span("converge", tracing.take_followed(), keys=len(task.keys)):
                self._traced = (tracing.current(),)
                passed = self._agent.converge(task)
        except Exception as exc:
            crash = f"{self._agent.binary}: {type(exc).__name__}: {exc}"
            error = exc if isinstance(exc, NetfwError) else DriverCrashed(crash)
            if isinstance(error, DriverCrashed):
                LOG.error("convergence failed: %s", error, exc_info=exc)
        else:
            return passed, passed.unread or _unavailable_error(passed.outcome)
        failed: Outcome[K] = Outcome(failed=dict.fromkeys(task.keys, error))
        return ConvergeResult(outcome=failed, counts=Counts(failed=len(task.keys))), error

    def _heartbeat(self) -> None:
        self._publisher.invalidate()  # publish the status with every heartbeat
        heartbeat = self._agent.heartbeat(start=not self._announced)
        result = self._source.report((with_backlog(heartbeat, self.status),))
        if self._timing().log_reports:
            counts = ", ".join(f"{name} {count}" for name, count in heartbeat.counts.items())
            LOG.info("heartbeat: sent, start=%s, %s", heartbeat.start, counts or "no counts")
        if result.resync:
            LOG.warning("source: requests a resync")
            self._events.resync()
        if heartbeat.start:
            self._start_counts = heartbeat.counts
        self._announced = True

    def _send(self) -> None:
        if len(self._reports):
            self._tasks.add_new(LoopTask.SEND, self._clock.now())
            self._do(LoopTask.SEND, self._send_reports)

    def _send_reports(self) -> None:
        with tracing.span("report", self._traced) if self._traced else nullcontext():
            self._reports.send(self._source)
        self._traced = ()

    def _send_early(self, keys: frozenset[K]) -> None:
        """Send the reports that need not wait for the pass, if the source answers."""
        reports = self._agent.early_reports(keys)
        self._reports.add(reports)
        if reports and not self._tasks.has_failed(_SOURCE_TASKS):
            self._send()

    def _do(self, task: LoopTask, action: Callable[[], None], *, keep: bool = False) -> bool:
        """Do a task that is due; return whether it is done.  A failure is recorded and retried."""
        return self._tasks.do(task, action, self._clock.now, keep=keep)

    def _pause(self) -> float | None:
        """Return the seconds until something can be done; ``None``: not before an event."""
        tasks_due = self._tasks.next_due(started=self._started, known=self._replica.known)
        times = [tasks_due, self._publisher.due()]
        if self._started and self._replica.known:
            times.append(self._retries.next_due())
            if (delay := self._agent.report_delay()) is not None:
                times.append(self._clock.now() + delay)
        due = min((time for time in times if time is not None), default=None)
        return None if due is None else max(0.0, due - self._clock.now())

    def _publish_status(self) -> None:
        now = self._clock.now()
        oldest = self._retries.oldest()
        status = AgentStatus(
            binary=self._agent.binary,
            host=self._agent.subscription.host,
            ready=self._replica.known and oldest is None and LoopTask.EVERYTHING not in self._tasks,
            lag=0.0 if oldest is None else now - oldest,
            errors=self._errors(),
            warnings=self._agent.warnings() if self._replica.known else {},
            degraded=_texts(self._retries.degraded),
            waiting=_texts(self._retries.waiting),
            passes=self._passes,
            last=self._last,
            total=self._total,
            counts=self._agent.counts(),
            desired=self._agent.resources.counts(),
            pending=len(self._retries),
            unsent=len(self._reports),
        )
        if status.ready and not self.status.ready:
            LOG.info("ready: host matches the desired state")
            if self._start_counts is not None and self._start_counts != status.counts:
                self._tasks.add_new(LoopTask.HEARTBEAT, now)
            self._start_counts = None
        self._publisher.set(status, now)

    def _errors(self) -> dict[str, str]:
        errors = dict(self._tasks.errors())
        if texts := self._source_errors:
            quoted = render_names(texts, len(texts), _MAX_QUOTED, "; ")
            errors.setdefault(LoopTask.PULL, quoted)
        return errors


def _unavailable_error(outcome: Outcome[K]) -> NetfwError | None:
    """Return the error if nothing was done at all since the backends do not answer."""
    if outcome.done or outcome.waiting:
        return None
    errors = outcome.failed.values()
    return next((error for error in errors if isinstance(error, BackendUnavailable)), None)


def _texts(mapping: Mapping[K, str]) -> dict[str, str]:
    return {str(key): text for key, text in mapping.items()}
