"""Bounded thread pool for drivers: threads are started on demand, and the queue is bounded."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.errors import BackendUnavailable

LOG = logging.getLogger(__name__)

Task = Callable[[], None]


class BoundedThreadPool:
    """Runs tasks in at most *threads* threads; at most *queue* tasks wait."""

    def __init__(self, name: str, threads: int, queue: int) -> None:
        self._name, self._threads, self._queue = name, threads, queue
        self._lock = threading.Condition()
        self._tasks: deque[Task] = deque()
        self._started: list[threading.Thread] = []
        self._idle = 0
        self._closed = False

    def submit(self, task: Task) -> bool:
        """Enqueue *task*; return ``False`` if the queue is full or the pool is closed.

        :raises BackendUnavailable: there is no thread, and the machine refuses to start one.
        """
        with self._lock:
            free = self._idle + self._threads - len(self._started)
            if self._closed or len(self._tasks) >= self._queue + free:
                return False
            if len(self._tasks) >= self._idle and len(self._started) < self._threads:
                self._start()
            self._tasks.append(task)
            self._lock.notify()
        return True

    def close(self, *, wait: bool = True) -> None:
        """Let submitted tasks finish, then end the threads.  Idempotent.

        A call from within a task does not wait.
        """
        with self._lock:
            self._closed = True
            self._lock.notify_all()
            started = tuple(self._started)
        if wait and threading.current_thread() not in started:
            for thread in started:
                thread.join()

    def _start(self) -> None:
        # A daemon: a handler that never ends must not keep the process from ending.
        name, running = f"{self._name}-{len(self._started)}", len(self._started)
        failure = f"{running} of {self._threads} threads of {self._name} run"
        try:
            self._started.append(start_daemon_thread(name, failure, self._work))
        except BackendUnavailable as exc:
            if not self._started:
                raise
            LOG.warning("%s", exc)

    def _work(self) -> None:
        while (task := self._next()) is not None:
            try:
                task()
            except BaseException:
                LOG.exception("a task of %s failed", self._name)

    def _next(self) -> Task | None:
        with self._lock:
            self._idle += 1
            while not self._tasks and not self._closed:
                self._lock.wait()
            self._idle -= 1
            return self._tasks.popleft() if self._tasks else None


class InFlight:
    """Running calls of a registration, so that its end can wait for them."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._within: list[int] = []
        self._ended = False

    def enter(self) -> bool:
        """Register a call of this thread; return ``False`` if the registration has ended."""
        with self._lock:
            if self._ended:
                return False
            self._within.append(threading.get_ident())
            return True

    def leave(self) -> None:
        """Unregister the call of this thread."""
        with self._lock:
            self._within.remove(threading.get_ident())
            self._lock.notify_all()

    def end(self) -> bool:
        """Refuse new calls, and wait until all running ones have left.

        A call from within does not wait, and returns ``False``.
        """
        with self._lock:
            self._ended = True
            if threading.get_ident() in self._within:
                return False
            return self._lock.wait_for(lambda: not self._within)
