"""How much a piece of work does, counted and not timed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def count_calls(work: Callable[[], object], limit: int) -> int:
    """How many functions *work* calls, generators that go on included; at most *limit*.

    :raises AssertionError: more; the work is given up then, however long it would go on.
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
