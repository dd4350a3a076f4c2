"""The cost of a piece of work, counted in function calls and not timed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


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

    with _profile(counted):
        work()
    return count


def not_counted(work: Callable[[], T]) -> T:
    """Return the result of *work* of a suite, whose calls are no cost of the driver.

    A thread whose calls are not counted changes nothing: CPython refuses a profile function while
    another thread sets one.
    """
    if sys.getprofile() is None:
        return work()
    with _profile(None):
        return work()


@contextmanager
def _profile(function: Any) -> Iterator[None]:
    former = sys.getprofile()
    sys.setprofile(function)
    try:
        yield
    finally:
        sys.setprofile(former)
