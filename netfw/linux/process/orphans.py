"""Processes that were started and not recorded, because the agent was killed between.

Each process carries a mark in its environment: which directory of records it belongs to (two hosts
may have theirs at the same path), which program it is, and for which key.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from netfw.errors import InvalidInput
from netfw.linux import netns
from netfw.linux.fs.atomic_files import make_directory
from netfw.linux.process.identity import Handle, hold_marked, mark_of, marked
from netfw.linux.process.launch import end
from netfw.linux.process.program import ProcessKey, Program, Timeouts

LOG = logging.getLogger(__name__)


def kill_in_namespace(namespace: str, patience: Timeouts | None = None) -> None:
    """End every process in *namespace* that some supervisor started; others are left alone.

    :raises NotFound: there is no such namespace.
    :raises BackendUnavailable: one does not end.
    """
    wanted = netns.identity(namespace)
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        if not _is_in(pid, wanted) or (mark := mark_of(pid)) is None:
            continue
        handle = hold_marked(pid, mark)
        if handle is None:
            continue
        try:
            LOG.warning("%s is left in %s: ending it", handle.identity.argv[0], namespace)
            end(handle, (), patience or Timeouts())
        finally:
            handle.close()


def _is_in(pid: int, wanted: netns.Identity) -> bool:
    try:
        found = os.stat(netns.of_process(pid))
    except OSError:
        return False  # it ended, or is a thread of the kernel
    return netns.Identity(found.st_dev, found.st_ino) == wanted


@frozen
class _Orphan:
    pid: int
    mark: str


class Orphans:
    """The processes that carried a mark of *directory* before anything was started from here.

    They are looked for once, when they are first asked for.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._found: dict[ProcessKey, list[_Orphan]] | None = None

    def mark(self, key: ProcessKey, program: Program) -> str:
        """What *program* has to carry when it is started for *key*."""
        return f"{self._head()}{program.digest()}:{key}"

    def take(self, key: ProcessKey) -> Iterator[Handle]:
        """Those for *key* that still run; they are not given out again, and to be closed."""
        with self._lock:
            orphans = self._look().pop(key, [])
        for orphan in orphans:
            handle = hold_marked(orphan.pid, orphan.mark)
            if handle is not None:
                yield handle

    def running(self, key: ProcessKey) -> tuple[tuple[int, str], ...]:
        """Those for *key* that still run: the pid, and the digest of the program."""
        with self._lock:
            orphans = tuple(self._look().get(key, ()))
            head = self._head()
        return tuple(
            (orphan.pid, orphan.mark.removeprefix(head).partition(":")[0])
            for orphan in orphans
            if mark_of(orphan.pid) == orphan.mark
        )

    def keys(self) -> frozenset[ProcessKey]:
        """The keys that some process still runs for."""
        with self._lock:
            found = dict(self._look())
        return frozenset(
            key for key, orphans in found.items() if any(mark_of(o.pid) == o.mark for o in orphans)
        )

    def _look(self) -> dict[ProcessKey, list[_Orphan]]:
        if self._found is None:
            found: dict[ProcessKey, list[_Orphan]] = {}
            head = self._head()
            for mark, pid in marked():
                if mark.startswith(head) and (key := _key(mark.removeprefix(head))) is not None:
                    found.setdefault(key, []).append(_Orphan(pid, mark))
            self._found = found
        return self._found

    def _head(self) -> str:
        make_directory(self._directory)
        status = self._directory.stat()
        return f"{status.st_dev}:{status.st_ino}:"


def _key(rest: str) -> ProcessKey | None:
    service, _, id_ = rest.partition(":")[2].partition("/")
    try:
        return ProcessKey(service, id_)
    except InvalidInput:
        return None
