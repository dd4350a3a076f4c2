"""Stopped processes: those that a signal (SIGSTOP) suspended and none continued."""

from __future__ import annotations

from collections.abc import Mapping

from netfw.linux.process.identity import Handle, stat
from netfw.linux.process.program import ProcessKey

_STOPPED = "T"
"""State of a stopped process; one that a debugger holds is in another state."""


class StopDetector:
    """Finds the processes that are stopped at two checks in a row.  For one thread."""

    def __init__(self) -> None:
        self._suspects: dict[ProcessKey, Handle] = {}

    def check(self, handles: Mapping[ProcessKey, Handle]) -> dict[ProcessKey, Handle]:
        """Return those of *handles* that are stopped, and were at the last check."""
        stopped = {key: handle for key, handle in handles.items() if _is_stopped(handle.pid)}
        hung = {key: handle for key, handle in stopped.items() if self._suspects.get(key) is handle}
        self._suspects = stopped
        return hung


def _is_stopped(pid: int) -> bool:
    try:
        return stat(pid)[0] == _STOPPED
    except OSError:
        return False
