"""JobAgent: an agent that converges groups of keys in parallel, by jobs for a worker pool.

A pass submits jobs and returns the results that are there.  So a slow group delays no other group.
Garbage is removed while no job is running.
"""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar, cast

from attrs import frozen

from netfw.agents.common.agent import UNDER_WAY, ConvergeRequest, ConvergeResult, HostAgent
from netfw.agents.common.grouped_state import GroupedState
from netfw.agents.common.jobs.death_backoff import DeathBackoff
from netfw.agents.common.jobs.job_executor import JobExecutor, SweepResult
from netfw.agents.common.jobs.job_tracker import JobTracker
from netfw.agents.common.jobs.jobs import Job
from netfw.agents.common.jobs.worker_pool import KeyedWorkerPool
from netfw.agents.common.replica import ReplicaDelta
from netfw.agents.common.status_reporter import StatusReporter
from netfw.drivers.values.events import Event, KeysChanged, ProcessDied, Sink
from netfw.drivers.values.reports import Report
from netfw.errors import (
    AgentMustEnd,
    BackendLocked,
    BackendUnavailable,
    DriverCrashed,
    NetfwError,
    OperationRefused,
)
from netfw.plan import Outcome

LOG = logging.getLogger(__name__)
G = TypeVar("G", bound=Hashable)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_NAMED = 3
"""Number of keys that an error about garbage names."""


@frozen
class Garbage:
    """The key of everything on this host that is not desired; retried like any key."""

    def __str__(self) -> str:
        return "garbage"


GARBAGE = Garbage()


@frozen
class WorkerThreads:
    """The key of the threads that execute jobs; retried like any key while jobs lack them."""

    def __str__(self) -> str:
        return "worker threads"


WORKER_THREADS = WorkerThreads()


@frozen
class JobFinished(Event):
    """A job was executed."""


@frozen(kw_only=True)
class JobAgentConfig:
    """The configuration that agents with jobs have in common."""

    host: str
    threads: int = 4
    """Number of groups that are converged in parallel."""
    wait_timeout: float = 0.1
    """Seconds that a pass waits for its jobs; later results come with a later pass."""
    pause: float = 1.0
    """Seconds without new jobs, so that garbage is removed while none is running."""
    availability_zone: str | None = None


class JobAgent(HostAgent[Hashable], Generic[G, K, V]):
    """The part of an agent that turns changed keys into jobs, and their results into reports.

    Beside its own keys, `Garbage` and `WorkerThreads` are retried.  The caller closes the drivers,
    after :meth:`close`.
    """

    KEY_TYPES: ClassVar[tuple[type[Any], ...]]
    """The types of ``K``."""

    def __init__(
        self,
        settings: JobAgentConfig,
        executor: JobExecutor[G, K, V],
        desired: GroupedState[G, K, V],
        statuses: StatusReporter[K],
    ) -> None:
        self._settings = settings
        self._executor, self._desired, self._statuses = executor, desired, statuses
        self._jobs: JobTracker[G, K, V] = JobTracker()
        self._deaths = DeathBackoff()
        self._sink: Sink = lambda event: None
        self._workers: KeyedWorkerPool[G, Job[G, K, V], Outcome[K]] = KeyedWorkerPool(
            settings.threads,
            executor.execute,
            Job.then,
            lambda: self._sink(JobFinished("a job was executed")),
        )
        self._sweep_is_due = self._reread_is_due = self._lacks_threads = False
        self._finish_by: float | None = None
        self._unread = ""
        """Why a driver could not read the machine the last time."""
        self._problems: Mapping[str, str] = {}

    @abstractmethod
    def make_desired(self) -> GroupedState[G, K, V]:
        """Return an empty desired state."""

    @abstractmethod
    def sweep(self) -> SweepResult[K]:
        """Remove what is not desired from the drivers.

        Called while no job is running.

        :raises NetfwError: nothing is known of what is there.
        """

    def keys_of(self, key: Hashable) -> Iterable[K]:
        """Return the keys to converge after an event of a driver about *key*."""
        return self.job_keys((key,))

    def job_keys(self, keys: Iterable[Hashable]) -> Iterator[K]:
        """Yield those of *keys* that jobs are about."""
        return (cast(K, key) for key in keys if isinstance(key, self.KEY_TYPES))

    def watch(self, sink: Sink) -> None:
        self._sink = sink
        self._executor.watch(sink)

    def acquire_locks(self) -> None:
        self._executor.acquire_locks()

    def start(self) -> None:
        self._problems = self._executor.problems()

    def apply_delta(self, delta: ReplicaDelta) -> frozenset[Hashable]:
        former = self._desired
        if delta.complete:
            self._desired = self.make_desired()
        self._desired.apply((*delta.changes, *delta.redelivered))
        keys, touched = self._desired.take_changed(), self._desired.take_touched()
        if delta.complete:
            keys |= former.all_keys() - self._desired.all_keys()
            touched |= former.all_keys()
        self.touch_reports(touched)
        self._jobs.request(keys, routine=delta.complete)
        return keys

    def rescan(self) -> frozenset[Hashable]:
        return frozenset()  # every key comes from the source

    def handle_events(self, events: Sequence[Event]) -> frozenset[Hashable]:
        requeued = frozenset[K]()
        for event in events:
            if isinstance(event, ProcessDied):
                if event.fatal:
                    raise AgentMustEnd(event.reason)
                LOG.warning("%s", event.reason)
            if isinstance(event, KeysChanged):
                keys = {key for named in event.keys for key in self.keys_of(named)}
                if isinstance(event, ProcessDied) and self._postpone(event, keys):
                    continue
                requeued |= self._jobs.invalidate(key for key in keys if self._is_known(key))
        self._record_results()
        garbage = frozenset({GARBAGE} if self._sweep_is_due else ())
        return self._jobs.unfinished | requeued | garbage

    def _postpone(self, event: ProcessDied, keys: set[K]) -> bool:
        """Converge *keys* later if their processes die again and again; return whether they do."""
        now = time.monotonic()
        delay = max((self._deaths.record(named, now) for named in event.keys), default=0.0)
        if delay:
            self._sink(KeysChanged(event.reason, keys, delay=delay))
        return bool(delay)

    def converge(self, task: ConvergeRequest[Hashable]) -> ConvergeResult[Hashable]:
        self._record_results()
        self._jobs.retry(self.job_keys(task.keys))
        if task.complete:
            self._problems = self._executor.problems()  # the host may have what it lacked
            self._jobs.request(self._desired.all_keys(), routine=True)
        self._sweep_is_due |= task.complete or GARBAGE in task.keys
        self._reread_is_due |= task.reread
        swept: Outcome[Hashable] = self._sweep() if self._sweep_is_due else Outcome()
        submitted = frozenset[K]()
        if GARBAGE not in swept.waiting:
            submitted = self._submit(self._jobs.take_jobs(self._desired))
            self._record_results()
        others = swept | self._start_threads()
        return self._result(submitted.union(self.job_keys(task.keys)), others)

    def reports(self) -> Sequence[Report]:
        return self._statuses.take(self._desired.reported, self._jobs.finished)

    def resend_reports(self) -> None:
        self._statuses.resend()

    def touch_reports(self, keys: Iterable[K]) -> None:
        """Have `reports` return those on *keys* once more: the source delivered them again."""
        self._statuses.touch(keys)

    def warnings(self) -> Mapping[str, str]:
        return self._problems

    def close(self) -> None:
        """Start no more jobs; what is served stays so."""
        self._workers.close()

    def _sweep(self) -> Outcome[Hashable]:
        """Remove garbage while no job is running; queued jobs are submitted again afterwards."""
        for job in self._workers.cancel_queued():
            self._jobs.cancel(job)
        if self._workers.busy:
            return self._await_idle()
        self._record_results()
        self._sweep_is_due, self._finish_by = False, None
        try:
            unread = self._reread()
            swept = self.sweep()
        except BackendLocked:
            self._sweep_is_due = True
            raise  # another agent serves, and reports
        except NetfwError as exc:
            return Outcome(failed={GARBAGE: exc})
        self._jobs.request(swept.requeued)
        failed = dict(swept.failed)
        if unread is not None:
            failed["reading the machine"] = unread
        if failed:
            return Outcome(failed={GARBAGE: _garbage_error(failed)})
        return Outcome(done=frozenset({GARBAGE}))

    def _reread(self) -> NetfwError | None:
        """Have the drivers read the machine, if that is due; return why one of them cannot.

        That is tried again with the next sweep; what is known is swept even so.

        :raises BackendUnavailable: the machine does not answer.
        """
        if not self._reread_is_due:
            return None
        error = self._executor.reread()
        if error is None:
            self._reread_is_due, self._unread = False, ""
            return None
        is_new, self._unread = str(error) != self._unread, str(error)
        if is_new and isinstance(error, DriverCrashed):
            LOG.error("audit: %s", error, exc_info=error)
        return error

    def _await_idle(self) -> Outcome[Hashable]:
        """Submit nothing until the running jobs end, for a limited time."""
        now = time.monotonic()
        if self._finish_by is None:
            self._finish_by = now + self._settings.pause
        if now < self._finish_by:
            return Outcome(waiting={GARBAGE: "the end of running jobs"})
        self._sweep_is_due, self._finish_by = False, None
        late = BackendUnavailable("it cannot be removed while a job is running")
        return Outcome(failed={GARBAGE: late})

    def _submit(self, jobs: Iterable[Job[G, K, V]]) -> frozenset[K]:
        """Submit *jobs* and wait for a limited time; return their keys."""
        submitted = tuple(jobs)
        for job in submitted:
            self._workers.submit(job.group, job, job.priority)
        self._workers.wait((job.group for job in submitted), self._settings.wait_timeout)
        return frozenset(key for job in submitted for key in job)

    def _start_threads(self) -> Outcome[Hashable]:
        """Start the threads that jobs lack, of which the machine may have refused some before."""
        error, former = self._workers.start_threads(), self._lacks_threads
        self._lacks_threads = error is not None
        if error is not None:
            return Outcome(failed={WORKER_THREADS: error})
        return Outcome(done=frozenset({WORKER_THREADS} if former else ()))

    def _record_results(self) -> None:
        for executed in self._workers.take_results():
            self._jobs.record(executed.job, executed.result)

    def _result(self, keys: Iterable[K], others: Outcome[Hashable]) -> ConvergeResult[Hashable]:
        """Return the results of jobs, those of *keys* that are pending, and *others*."""
        results = self._jobs.take_results()
        self._statuses.record(results)
        pending = (key for key in keys if self._jobs.is_pending(key))
        waiting: dict[Hashable, str] = dict.fromkeys(pending, UNDER_WAY)
        waiting |= others.waiting
        waiting |= {key: why for key, why in results.waiting.items()}  # noqa: C416 - wider keys
        failed: dict[Hashable, NetfwError] = dict(others.failed)
        failed |= {key: error for key, error in results.failed.items()}  # noqa: C416
        done = others.done | results.done
        return ConvergeResult(outcome=Outcome(done, failed, waiting), counts=results.counts)

    def _is_known(self, key: K) -> bool:
        return self._desired.value(key) is not None or self._jobs.is_served(key)


def _garbage_error(failed: Mapping[Hashable, NetfwError]) -> NetfwError:
    """Return one error that names a few of the keys that cannot be removed."""
    named: dict[object, str] = {key: str(failed[key]) for key in sorted(failed, key=str)[:_NAMED]}
    if len(failed) > _NAMED:
        named["others"] = f"{len(failed) - _NAMED} more cannot be removed"
    return OperationRefused(named)
