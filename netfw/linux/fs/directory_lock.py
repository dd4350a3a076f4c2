"""The sole right to write to a directory.

Two who keep the files and processes of one directory would undo each other's work.  The right is a
lock of a file there, which ends with the process that holds it, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from attrs import frozen

from netfw.drivers.events import Event, FeedLost
from netfw.errors import BackendError, BackendLocked
from netfw.linux.fs.atomic_files import file_trouble, make_directory

FILE = "holder"
"""Has the pid of who has the right."""
_MODE = 0o600
"""Who may open a file may lock it."""
_GLANCE = 1.0
"""How often who waits looks whether it is his turn, in seconds."""


@frozen
class _Wait:
    over: threading.Event
    thread: threading.Thread


class DirectoryLock:
    """One driver's right to write to *directory*; asked for when first needed.

    Several in one process are told apart, too.  Safe for several threads.

    :param option: what an operator gives another value, so that both can work.
    :param begin: called when the right was given to us, before `take` returns: what others did
        there before is to be read.
    :param tell: told `FeedLost`, from any thread, when who had to wait need not any more.
    """

    def __init__(
        self,
        directory: Path,
        option: str,
        *,
        begin: Callable[[], None],
        tell: Callable[[Event], None],
    ) -> None:
        self._path, self._option = directory / FILE, option
        self._begin, self._tell = begin, tell
        self._guard = threading.Lock()
        self._descriptor: int | None = None
        self._begun = False
        self._wait: _Wait | None = None

    def acquire(self) -> None:
        """Have the right from now on; costs next to nothing while it is there.

        :raises BackendLocked: another one has it, and nothing was touched.
        :raises BackendBroken: the machine lets nobody have it.
        :raises BackendUnavailable: it has no room for one more open file now.
        """
        with self._guard:
            if self._descriptor is None or not self._is_there(self._descriptor):
                self._lock()
                if self._wait is not None:
                    self._wait.over.set()
                    self._wait = None
            if not self._begun:
                self._begin()
                self._begun = True

    def release(self) -> None:
        """Give it back, and wait for it no more.  Ending twice is ending once."""
        with self._guard:
            wait, self._wait = self._wait, None
            self._let_go()
        if wait is not None:
            wait.over.set()
            wait.thread.join()

    def _lock(self) -> None:
        """Get hold of the file that is there now."""
        make_directory(self._path.parent)
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._path, flags, _MODE)
        except OSError as error:
            raise file_trouble(error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            os.close(descriptor)
            self._let_go()
            self._line_up()
            raise BackendLocked(
                f"process {holder or '(unknown)'} works in {self._path.parent}: stop it, or give "
                f"this one its own {self._option}"
            ) from error
        with suppress(OSError):  # who it is matters less than that there is somebody
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        former, self._descriptor = self._descriptor, descriptor
        if former is not None:
            os.close(former)

    def _is_there(self, descriptor: int) -> bool:
        """Whether whoever else wants the right would find the file that we hold."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(descriptor))
        except OSError:
            return False

    def _let_go(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._begun = None, False

    def _line_up(self) -> None:
        if self._wait is None:
            over = threading.Event()
            thread = threading.Thread(
                target=self._look, args=(over,), name="netfw-tenure", daemon=True
            )
            self._wait = _Wait(over, thread)
            thread.start()

    def _look(self, over: threading.Event) -> None:
        """Take the right as soon as nobody has it, so that nobody comes in between."""
        while not over.wait(_GLANCE):
            with self._guard:
                if over.is_set():
                    return
                try:
                    self._lock()
                except BackendError:
                    continue
                self._wait = None
            self._tell(FeedLost(f"{self._path.parent} is left to us"))
            return
