"""Orphans: processes that were started and not recorded, because the agent was killed between, and
children that outlived their parent.

Each process carries a mark in its environment: its directory of records (two hosts may have theirs
at the same path), the digest of its program, and its key.  Marks of other users' processes are
ignored: they may be copies.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Container, Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from netfw.errors import BackendUnavailable, InvalidInput
from netfw.linux import netns
from netfw.linux.fs.atomic_files import make_directory
from netfw.linux.process.identity import (
    Handle,
    hold_marked,
    marked,
    read_marked,
    session,
    trusted_mark,
)
from netfw.linux.process.launch import by_pid_file, end
from netfw.linux.process.supervised_program import ProcessKey, Program, Timeouts

LOG = logging.getLogger(__name__)


def kill_in_namespace(namespace: str, timeouts: Timeouts | None = None) -> None:
    """End every process in *namespace* that a supervisor started; others are left running.

    :raises NotFound: there is no such namespace.
    :raises BackendUnavailable: a process does not end, or cannot be looked at.
    """
    try:
        _kill_in(namespace, timeouts or Timeouts())
    except OSError as error:
        raise BackendUnavailable(f"processes in {namespace}: {error}") from error


def _kill_in(namespace: str, timeouts: Timeouts) -> None:
    wanted = netns.identity(namespace)
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        if not _is_in(pid, wanted) or (mark := trusted_mark(pid)) is None:
            continue
        handle = hold_marked(pid, mark)
        if handle is None:
            continue
        try:
            LOG.warning(
                "%s: ending orphaned process in namespace %s", handle.identity.argv[0], namespace
            )
            end(handle, timeouts)
        finally:
            handle.close()


def _is_in(pid: int, wanted: netns.NamespaceIdentity) -> bool:
    try:
        found = os.stat(netns.of_process(pid))
    except OSError:
        return False  # it ended, or is a kernel thread
    return netns.NamespaceIdentity(found.st_dev, found.st_ino) == wanted


@frozen
class _Orphan:
    pid: int
    mark: str


class Orphans:
    """Processes that carried a mark of *directory* before this supervisor started any.

    They are searched for once, on first use.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._found: dict[ProcessKey, list[_Orphan]] | None = None

    def mark(self, key: ProcessKey, program: Program) -> str:
        """Return the mark of *program* when it is started for *key*."""
        return f"{self._head()}{program.digest()}:{key}"

    @contextmanager
    def taken(self, key: ProcessKey) -> Iterator[list[Handle]]:
        """Yield the handles of those for *key* that still run, which are forgotten afterwards.

        They are closed, but for those that the caller removes from the list.  If an error occurs,
        the next call finds them again.
        """
        with self._lock:
            orphans = tuple(self._look().get(key, ()))
        handles: list[Handle] = []
        try:
            for orphan in orphans:
                handle = hold_marked(orphan.pid, orphan.mark)
                if handle is not None:
                    handles.append(handle)
            yield handles
            with self._lock:
                self._look().pop(key, None)
        finally:
            for handle in handles:
                handle.close()

    def find_main(self, key: ProcessKey, program: Program, timeouts: Timeouts) -> Handle | None:
        """Find a process that was started for *key* and not recorded, because the agent was killed.

        Other processes that were started for *key* and are not in its session are ended.

        :raises BackendUnavailable: a process does not end.
        """
        mark = self.mark(key, program)
        with self.taken(key) as orphans:
            mains = [it for it in orphans if it.identity.mark == mark and _is_main(it, program)]
            main = mains[0] if mains else None
            for orphan in orphans:
                if orphan is main:
                    continue
                if main is None or session(orphan.pid) != session(main.pid):
                    end(orphan, timeouts)
            if main is not None:
                orphans.remove(main)
        return main

    def end_children(
        self,
        key: ProcessKey,
        pid_files: Collection[Path],
        timeouts: Timeouts,
        released: Callable[[], bool] | None = None,
    ) -> None:
        """End the children of a process for *key* that has ended, and remove their pid files.

        Daemons refuse to start beside a pid file of a process that runs, whichever it is.

        :param released: as of :func:`~netfw.linux.process.launch.end`.
        :raises BackendUnavailable: a process does not end.
        """
        head = self._head()
        for pid, mark in read_marked(pid_files):
            if mark.startswith(head) and _key(mark.removeprefix(head)) == key:
                child = hold_marked(pid, mark)
                if child is not None:
                    end(child, timeouts, released)
                    child.close()
        for path in pid_files:
            path.unlink(missing_ok=True)

    def running(self, key: ProcessKey) -> tuple[tuple[int, str], ...]:
        """Return pid and program digest of those for *key* that still run."""
        with self._lock:
            orphans = tuple(self._look().get(key, ()))
            head = self._head()
        return tuple(
            (orphan.pid, orphan.mark.removeprefix(head).partition(":")[0])
            for orphan in orphans
            if trusted_mark(orphan.pid) == orphan.mark
        )

    def keys(self, *, but: Container[ProcessKey] = ()) -> frozenset[ProcessKey]:
        """Return the keys for which a process still runs, without those in *but*."""
        with self._lock:
            found = {key: some for key, some in self._look().items() if key not in but}
        return frozenset(
            key
            for key, orphans in found.items()
            if any(trusted_mark(orphan.pid) == orphan.mark for orphan in orphans)
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


def _is_main(handle: Handle, program: Program) -> bool:
    """Return whether a process with our mark is the program itself, and not a child of it."""
    if handle.identity.namespace != netns.identity(program.namespace):
        return False
    if program.pid_file is None:
        return session(handle.pid) == handle.pid
    named = by_pid_file(program.pid_file, program.argv)
    return named is not None and named.pid == handle.pid


def _key(rest: str) -> ProcessKey | None:
    service, _, id_ = rest.partition(":")[2].partition("/")
    try:
        return ProcessKey(service, id_)
    except InvalidInput:
        return None
