"""Worker threads of an HTTP server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from queue import Queue
from typing import Any

from cheroot.workers import threadpool
from cheroot.workers.threadpool import ThreadPool, WorkerThread

_SHUTDOWN: Any = getattr(threadpool, "_SHUTDOWNREQUEST")  # noqa: B009 - its type is not declared


class WorkerPool(ThreadPool):
    """The thread pool of cheroot, with a bound for its stop: cheroot waits for hung handlers."""

    _queue: Queue[Any]
    _threads: list[WorkerThread]
    _force_close: Callable[[Any], None]
    _clear_threads: Callable[[], Iterable[WorkerThread]]
    _ending: tuple[WorkerThread, ...] = ()

    def start(self) -> None:
        """Start all threads; end them again if the machine has not enough.

        :raises RuntimeError: it has not.
        """
        try:
            super().start()
        except RuntimeError:  # cheroot forgets those that it has started
            started = (each for each in threading.enumerate() if isinstance(each, WorkerThread))
            self._threads.extend(each for each in started if each.server is self.server)
            self.stop(0)
            raise

    def stop(self, timeout: float = 5) -> None:
        """End the threads when no request waits; close the connections of those that are late."""
        self._ending = tuple(self._clear_threads())
        self._queue.maxsize = 0  # putting must not block, however many requests wait
        for _ in self._ending:
            self._queue.put(_SHUTDOWN)
        if not self.join(time.monotonic() + timeout):
            for worker in self._ending:
                if worker.is_alive():
                    self._force_close(worker.conn)

    def join(self, deadline: float) -> bool:
        """Wait for the end of the threads until *deadline*; return whether they have ended."""
        for worker in self._ending:
            worker.join(max(0.0, deadline - time.monotonic()))
        return not any(worker.is_alive() for worker in self._ending)
