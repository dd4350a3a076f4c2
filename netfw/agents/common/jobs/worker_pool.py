"""Worker pool with keyed jobs: a bounded number of threads, one job of each key at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, TypeVar

from attrs import frozen

from netfw.agents.common.jobs.jobs import JobPriority
from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.errors import BackendUnavailable

G = TypeVar("G", bound=Hashable)
J = TypeVar("J")
R = TypeVar("R")


BATCH_SECONDS: Final = 0.25
"""Seconds within which results are collected together while many more jobs are queued."""


@frozen
class JobResult(Generic[J, R]):
    """A job that was executed, and its result."""

    job: J
    result: R


class KeyedWorkerPool(Generic[G, J, R]):
    """Executes jobs in at most *size* threads.

    Jobs of one key are executed one after the other; those of different keys in parallel.  A job
    that is submitted while an older one of its key is queued is joined with it by *join*, so that
    nothing outdated is done.  Jobs go in the order of their priority.  *work* does not raise.
    *finished* is called, from any thread, when there are results to collect: at once, unless so
    many jobs are queued that it is better to collect several results together.
    """

    def __init__(
        self,
        size: int,
        work: Callable[[J], R],
        join: Callable[[J, J], J],
        finished: Callable[[], None],
    ) -> None:
        self._size, self._work, self._join, self._finished = size, work, join, finished
        self._changed = threading.Condition()
        self._queues: dict[JobPriority, dict[G, J]] = {each: {} for each in JobPriority}
        self._running: set[G] = set()
        self._results: list[JobResult[J, R]] = []
        self._notified_at, self._is_notified = 0.0, False
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False

    def submit(self, key: G, job: J, priority: JobPriority = JobPriority.CHANGE) -> None:
        """Queue a job.  Joined with an older one, it has the better of both places."""
        with self._changed:
            former = next((each for each in JobPriority if key in self._queues[each]), priority)
            older = self._queues[former].get(key)
            if priority < former:
                del self._queues[former][key]
            queue = self._queues[min(priority, former)]
            queue[key] = job if older is None else self._join(older, job)
            if self._lacking():
                self._start_thread()
            self._changed.notify_all()

    def start_threads(self) -> BackendUnavailable | None:
        """Start the threads that queued jobs lack; return why that is not possible.

        A thread that could not be started is not tried again but here and by `submit`; the jobs
        stay queued for the threads that there are.
        """
        with self._changed:
            for _ in range(self._lacking()):
                error = self._start_thread()
                if error is not None:
                    return error
            return None

    def cancel_queued(self) -> list[J]:
        """Remove the jobs that no thread has started; return them."""
        with self._changed:
            jobs = [job for queue in self._queues.values() for job in queue.values()]
            for queue in self._queues.values():
                queue.clear()
            return jobs

    @property
    def busy(self) -> bool:
        """Whether a job is running or queued."""
        with self._changed:
            return bool(self._running or self._queued())

    def wait(self, keys: Iterable[G], seconds: float) -> None:
        """Return when the jobs of all *keys* were executed, or after so many seconds."""
        awaited = frozenset(keys)

        def done() -> bool:
            pending = (self._running, *self._queues.values())
            return self._closed or all(map(awaited.isdisjoint, pending))

        with self._changed:
            self._changed.wait_for(done, seconds)

    def take_results(self) -> list[JobResult[J, R]]:
        """Return the results since the last call, in order."""
        with self._changed:
            results, self._results = self._results, []
            self._is_notified = False
            return results

    def close(self, seconds: float = 10.0) -> None:
        """Start no more jobs, and wait so many seconds for those that run."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        while (next_job := self._take()) is not None:
            key, job = next_job
            result = self._work(job)
            with self._changed:
                self._running.discard(key)
                self._results.append(JobResult(job, result))
                notify = self._should_notify()
                self._changed.notify_all()
            if notify:
                self._finished()

    def _lacking(self) -> int:
        """Return the number of threads to start for the queued jobs."""
        return max(0, min(self._queued() - self._idle, self._size - len(self._threads)))

    def _start_thread(self) -> BackendUnavailable | None:
        name = f"netfw-worker-{len(self._threads)}"
        failure = f"only {len(self._threads)} of {self._size} worker threads run"
        try:
            self._threads.append(start_daemon_thread(name, failure, self._run))
        except BackendUnavailable as exc:
            return exc
        return None

    def _queued(self) -> int:
        return sum(map(len, self._queues.values()))

    def _should_notify(self) -> bool:
        """Return whether to call *finished* now; if not, a later result does."""
        now = time.monotonic()
        many = self._queued() > self._size
        if self._is_notified or (many and now - self._notified_at < BATCH_SECONDS):
            return False
        self._notified_at, self._is_notified = now, True
        return True

    def _take(self) -> tuple[G, J] | None:
        """Return the next job with its key, when there is one; ``None`` after `close`."""
        with self._changed:
            while not self._closed:
                for queue in self._queues.values():
                    key = next((key for key in queue if key not in self._running), None)
                    if key is not None:
                        self._running.add(key)
                        return key, queue.pop(key)
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            return None
