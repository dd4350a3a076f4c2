"""Directory lock: of the drivers that are configured for one directory, one at a time writes there.

Two writers of the same files and processes would undo each other's work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from attrs import frozen

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.drivers.values.events import Event, FeedLost
from netfw.errors import BackendBroken, BackendError, BackendLocked
from netfw.linux.fs.atomic_files import file_error, make_directory
from netfw.linux.fs.lock_file import LockFile, LockHeld
from netfw.linux.fs.permissions import exposure_problem

FILE = "holder"
"""Name of the lock file in the directory."""
_RETRY_INTERVAL = 1.0
"""Seconds between attempts to acquire the lock."""


@frozen
class _Wait:
    cancelled: threading.Event
    thread: threading.Thread


class DirectoryLock:
    """The lock of *directory* for one driver; acquired when first needed.

    Locks of several drivers in one process exclude each other, too.  Thread-safe.

    :param option: the option that names the directory.
    :param on_acquired: called when the lock was acquired, before `acquire` returns: the driver
        reads again what former holders wrote.
    :param publish: receives `FeedLost`, from any thread, when a lock that was refused could be
        acquired.
    """

    def __init__(
        self,
        directory: Path,
        option: str,
        *,
        on_acquired: Callable[[], None],
        publish: Callable[[Event], None],
    ) -> None:
        self._directory, self._option = directory, option
        self._on_acquired, self._publish = on_acquired, publish
        self._guard = threading.Lock()
        self._lock = LockFile(directory / FILE, keep=True)
        self._announced = False
        self._wait: _Wait | None = None

    def acquire(self) -> None:
        """Acquire the lock; cheap while it is held.

        If it is held elsewhere, a thread goes on to try.

        :raises BackendLocked: another driver holds it; nothing was touched.
        :raises BackendBroken: the lock file cannot be made, or this is root, and others could
            change the directory.
        :raises BackendUnavailable: no file descriptor, or no thread, is free now.
        """
        with self._guard:
            if not self._lock.is_held:
                self._acquire_or_wait()
                if self._wait is not None:
                    self._wait.cancelled.set()
                    self._wait = None
            if not self._announced:
                self._on_acquired()
                self._announced = True

    def release(self) -> None:
        """Release the lock, and stop waiting for it.  Idempotent."""
        with self._guard:
            wait, self._wait = self._wait, None
            self._lock.release()
            self._announced = False
        if wait is not None:
            wait.cancelled.set()
            wait.thread.join()

    def _acquire_or_wait(self) -> None:
        if problem := exposure_problem(self._directory):
            raise BackendBroken(f"{self._option}: {problem}")
        make_directory(self._directory)
        try:
            self._lock.acquire()
        except LockHeld as error:
            self._announced = False
            self._start_waiting()
            raise BackendLocked(
                f"process {error.holder or '(unknown)'} works in {self._directory}, and this one "
                "waits until it ends: stop one of them if both are agents of one kind, since a "
                f"host has one of each; agents of two kinds need two directories ({self._option})"
            ) from error
        except OSError as error:
            raise file_error(error) from error

    def _start_waiting(self) -> None:
        if self._wait is None:
            cancelled = threading.Event()
            failure = f"{self._directory} is locked, and cannot be waited for"
            thread = start_daemon_thread("netfw-directory-lock", failure, self._retry, cancelled)
            self._wait = _Wait(cancelled, thread)

    def _retry(self, cancelled: threading.Event) -> None:
        """Acquire the lock as soon as it is free, so that no third driver comes in between."""
        while not cancelled.wait(_RETRY_INTERVAL):
            with self._guard:
                if cancelled.is_set():
                    return
                try:
                    self._acquire_or_wait()
                except BackendError:
                    continue
                self._wait = None
            self._publish(FeedLost(f"{self._directory} was released by its former holder"))
            return
