"""How to wait for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds for what takes one on an idle machine."""


def wait_until(
    condition: Callable[[], T],
    what: str | Callable[[], object] = "it",
    *,
    seconds: float = PATIENCE,
    pause: float = 0.01,
) -> T:
    """What *condition* returns, once that is true.

    :param what: what is waited for, or what to call for words about why it did not happen.
    :raises TimeoutError: it is not true after so many *seconds*.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            said = what if isinstance(what, str) else what()
            raise TimeoutError(f"not in {seconds:g} s: {said}")
        time.sleep(pause)
    return found
