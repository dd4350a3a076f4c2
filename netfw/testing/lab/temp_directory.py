"""Temporary directories that are removed even if their process was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def temporary_directory(prefix: str) -> Iterator[Path]:
    """Create a temporary directory whose name begins with *prefix*; remove it at the end.

    First, directories with that prefix that killed processes left behind are removed.  A lock on
    each directory, which the kernel releases when its process dies, shows that it is in use; a pid
    would not, as it differs between process namespaces.
    """
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        _remove_abandoned(path)
    path, lock = _make(prefix)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _make(prefix: str) -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix))
        with suppress(FileNotFoundError):  # another process removed it before it was locked
            lock = _open(path)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if path.exists():
                return path, lock
            os.close(lock)


def _remove_abandoned(path: Path) -> None:
    with suppress(OSError):  # not a directory, or gone, or another user's
        lock = _open(path)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_uid == os.geteuid():
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
