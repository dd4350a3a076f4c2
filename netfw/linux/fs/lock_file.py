"""Lock files: flock(2) on a file that contains the pid of the process that holds the lock."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from netfw.errors import BackendLocked

_MODE = 0o600
"""Any user that may open a file may lock it."""
_RETRY_INTERVAL = 0.05


class LockHeld(BackendLocked):
    """Another lock file object, of this process or another, holds the lock.

    :ivar holder: the pid in the file; ``None`` when it has none.
    """

    def __init__(self, path: Path, holder: int | None) -> None:
        super().__init__(f"process {holder or '(unknown)'} holds {path}")
        self.path, self.holder = path, holder


class LockFile:
    """An exclusive lock on the file at *path*, whose directory exists.

    The kernel releases the lock when the process ends, also by SIGKILL; the file that is left then
    is locked anew by the next holder.  Two objects of one process exclude each other.  A forked
    child shares the lock of its parent: the lock lasts until both have ended, and only the process
    that acquired it can release it.

    :param keep: leave the file in place on release.
    """

    def __init__(self, path: Path, *, keep: bool = False) -> None:
        self.path, self._keep = path, keep
        self._descriptor: int | None = None
        self._owner = 0

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock, on the file that is at the path now."""
        return self._descriptor is not None and self._is_at_path(self._descriptor)

    def acquire(self, timeout: float = 0.0) -> None:
        """Acquire the lock, and write the pid of this process; a held lock stays as it is.

        If the file was removed while it was locked, lock the one that is at the path now.

        :param timeout: seconds to retry while the lock is held elsewhere.
        :raises LockHeld: it was held elsewhere until then; this object holds nothing.
        :raises OSError: the file cannot be made or opened.
        """
        if self.is_held:
            return
        self._close()
        deadline = time.monotonic() + timeout
        while not self._try_lock():
            if time.monotonic() >= deadline:
                raise LockHeld(self.path, self._read_holder())
            time.sleep(_RETRY_INTERVAL)

    def release(self) -> None:
        """Remove the file, unless it is to stay, and release the lock.  Idempotent."""
        if self.is_held and self._owner == os.getpid() and not self._keep:
            self.path.unlink(missing_ok=True)
        self._close()

    def _try_lock(self) -> bool:
        """Lock the file at the path; open it again if a former holder removed it meanwhile."""
        while True:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self.path, flags, _MODE)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as exc:
                os.close(descriptor)
                if isinstance(exc, BlockingIOError):
                    return False
                raise
            if self._is_at_path(descriptor):
                break
            os.close(descriptor)
        with suppress(OSError):  # a full disk: the lock holds without the pid
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor, self._owner = descriptor, os.getpid()
        return True

    def _read_holder(self) -> int | None:
        try:
            return int(self.path.read_bytes()[:20])
        except (OSError, ValueError):
            return None

    def _is_at_path(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(descriptor))
        except OSError:
            return False

    def _close(self) -> None:
        if self._descriptor is not None:
            if self._owner == os.getpid():
                # A child that was forked and has not executed its program yet has the file open.
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
        self._descriptor = None
