"""Waits for conditions that other processes bring about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds to allow for what takes one second on an idle machine."""


def wait_until(
    condition: Callable[[], T],
    what: str | Callable[[], object] = "it",
    *,
    seconds: float = PATIENCE,
    pause: float = 0.01,
) -> T:
    """Return the result of *condition* once it is true.

    :param what: a name of the condition, or a function that returns why it does not hold.
    :raises TimeoutError: it is not true after so many *seconds*.
    """
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > deadline:
            description = what if isinstance(what, str) else what()
            raise TimeoutError(f"not in {seconds:g} s: {description}")
        time.sleep(pause)
    return result
