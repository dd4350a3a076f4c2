"""The cost of a piece of work, counted in function calls and not timed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def count_calls(work: Callable[[], object], limit: int) -> int:
    """Return how many functions *work* calls, resumed generators included; at most *limit*.

    :raises AssertionError: more; the work is aborted then, however long it would take.
    """
    count = 0

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        if event == "call":
            count += 1
            if count > limit:
                raise AssertionError(f"it takes more than {limit} calls of functions")

    former = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(former)
    return count
