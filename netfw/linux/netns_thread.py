"""Threads that live in a network namespace, so that the caller's thread never has to move.

A worker is started from the thread that asks for it and therefore begins in *that* thread's network
and mount namespaces: names are looked up where the caller is.  That is how several lab hosts, each
with namespaces of the same names, work within one process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class NetnsThread:
    """One thread that first calls *enter* and then whatever it is given, one call after another.

    1. The thread starts in the namespaces of the thread that constructs the worker.
    2. What a call raises, the caller gets, with the traceback of both threads.
    3. ``close`` ends the thread; no worker whose *enter* failed leaves one behind.

    :raises BaseException: whatever *enter* raised.
    """

    def __init__(self, enter: Callable[[], None], name: str = "netfw-worker") -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        try:
            # The executor starts its only thread here, on behalf of the calling thread.
            self._thread = self._executor.submit(_enter, enter).result()
        except BaseException:
            self.close()
            raise

    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call *function* in the worker's thread and return what it returns."""
        if threading.get_ident() == self._thread:
            return function(*args, **kwargs)
        return self._executor.submit(function, *args, **kwargs).result()

    def close(self) -> None:
        """End the thread once it has done what it was given.  Closing twice is closing once."""
        self._executor.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _enter(enter: Callable[[], None]) -> int:
    enter()
    return threading.get_ident()
