"""Stopped processes: those that a signal (SIGSTOP) suspended and none continued."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from signal import Signals

from attrs import frozen

from netfw.linux.process.identity import Handle, hold_marked, read_marked, stat
from netfw.linux.process.supervised_process import SupervisedProcess
from netfw.linux.process.supervised_program import ProcessKey

_STOPPED = "T"
"""State of a stopped process; one that a debugger holds is in another state."""


@frozen
class CheckedProcess:
    """A process, and the pid files of itself and of children without which it does not work."""

    handle: Handle
    own_pid_files: tuple[Path, ...] = ()

    def stopped_pids(self) -> frozenset[int]:
        """Return the pids of the process and of its children, as far as they are stopped."""
        return frozenset(pid for pid in (self.handle.pid, *self._child_pids()) if _is_stopped(pid))

    def kill(self) -> None:
        """Kill the process and its children: a stopped child outlives its parent."""
        mark = self.handle.identity.mark
        children = [hold_marked(pid, mark) for pid in self._child_pids()]
        self.handle.signal(Signals.SIGKILL)
        for child in filter(None, children):
            child.signal(Signals.SIGKILL)
            child.close()

    def _child_pids(self) -> Iterator[int]:
        """Yield the children that run; other processes do not have the mark of their parent."""
        mark = self.handle.identity.mark
        found = read_marked(self.own_pid_files)
        yield from (pid for pid, own in found if own == mark and pid != self.handle.pid)


def checked_processes(
    states: Mapping[ProcessKey, SupervisedProcess],
) -> dict[ProcessKey, CheckedProcess]:
    """Return the processes to check, of those that a supervisor has; others may change them."""
    now = [(key, state.handle, state.program) for key, state in states.items()]
    return {
        key: CheckedProcess(handle, program.own_pid_files)
        for key, handle, program in now
        if handle is not None and program is not None
    }


class StopDetector:
    """Finds the processes that are stopped at two checks in a row.  For one thread."""

    def __init__(self) -> None:
        self._suspects: dict[ProcessKey, frozenset[int]] = {}

    def check(
        self, processes: Mapping[ProcessKey, CheckedProcess]
    ) -> dict[ProcessKey, CheckedProcess]:
        """Return those that are stopped, or have a stopped child, and had at the last check."""
        former = self._suspects
        found = {key: process.stopped_pids() for key, process in processes.items()}
        self._suspects = {key: pids for key, pids in found.items() if pids}
        hung = (key for key, pids in self._suspects.items() if pids & former.get(key, frozenset()))
        return {key: processes[key] for key in hung}


def _is_stopped(pid: int) -> bool:
    try:
        return stat(pid)[0] == _STOPPED
    except OSError:
        return False
