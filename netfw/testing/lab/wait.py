"""Waits for conditions that other processes bring about."""

from __future__ import annotations

import time
from collections.abc import Callable
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


def _default_pause(waited: float) -> float:
    shortest, longest = _PAUSES
    return min(max(waited * _PAUSE_SHARE, shortest), longest)
