"""Waits for conditions that other processes bring about."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

TIMEOUT = 60.0
"""Seconds to allow for what takes one second on an idle machine."""

_PAUSES = (0.01, 0.1)
"""Shortest and longest pause between two checks, in seconds."""
_PAUSE_SHARE = 0.1
"""A pause takes this part of the time waited so far, so that long waits leave the CPU to others."""


def wait_until(
    condition: Callable[[], T],
    what: str | Callable[[], object] = "it",
    *,
    seconds: float = TIMEOUT,
    pause: float | None = None,
) -> T:
    """Return the result of *condition* once it is true.

    :param what: a name of the condition, or a function that returns why it does not hold.
    :param pause: seconds between two checks; by default they grow with the time waited.
    :raises TimeoutError: it is not true after so many *seconds*.
    """
    start = time.monotonic()
    while not (result := condition()):
        waited = time.monotonic() - start
        if waited > seconds:
            description = what if isinstance(what, str) else what()
            raise TimeoutError(f"not in {seconds:g} s: {description}")
        time.sleep(_default_pause(waited) if pause is None else pause)
    return result


def suspend(pid: int) -> None:
    """Stop a process, and return when none of its threads runs: on a busy machine that is later."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: _is_stopped(pid), f"the stop of process {pid}")


def _is_stopped(pid: int) -> bool:
    try:
        stats = [task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:  # a thread has ended
        return False
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


def _default_pause(waited: float) -> float:
    shortest, longest = _PAUSES
    return min(max(waited * _PAUSE_SHARE, shortest), longest)
