"""Threads that live in a network namespace, so that the caller's thread never has to move.

A worker is started from the thread that asks for it and therefore begins in *that* thread's network
and mount namespaces: names are looked up where the caller is.  That is how several lab hosts, each
with namespaces of the same names, work within one process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar

from netfw.drivers.support.daemon_thread import start_daemon_thread

P = ParamSpec("P")
T = TypeVar("T")
_FAILURE = "entering a namespace failed"


class _Call(Generic[T]):
    """A call that one thread executes while another one waits for its result."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._ended = threading.Lock()
        self._ended.acquire()
        self._value: T | None = None
        self._error: BaseException | None = None

    def execute(self) -> None:
        try:
            self._value = self._function()
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            self._error = error
        finally:
            self._ended.release()

    def result(self) -> T:
        """Wait for the end of the call, once; return or raise its result."""
        self._ended.acquire()
        error, self._error = self._error, None
        if error is None:
            return self._value  # type: ignore[return-value]
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame


class NetnsThread:
    """One thread that first calls *enter* and then whatever it is given, one call after another.

    1. The thread starts in the namespaces of the thread that constructs the worker.
    2. What a call raises, the caller gets, with the traceback of both threads.
    3. ``close`` ends the thread; no worker whose *enter* failed leaves one behind.

    :raises BackendUnavailable: the machine has no thread left.
    :raises BaseException: whatever *enter* raised.
    """

    def __init__(
        self,
        enter: Callable[[], None],
        name: str = "netfw-worker",
        failure: str = _FAILURE,
    ) -> None:
        """Start the thread; *failure* begins the error if there is none left."""
        self._calls: SimpleQueue[_Call[Any] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = start_daemon_thread(name, failure, self._execute_calls)
        try:
            self.run(enter)
        except BaseException:
            self.close()
            raise

    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call *function* in the worker's thread and return what it returns.

        :raises RuntimeError: the worker was closed.
        """
        if threading.get_ident() == self._thread.ident:
            return function(*args, **kwargs)
        call = _Call(lambda: function(*args, **kwargs))
        with self._lock:
            if self._closed:
                raise RuntimeError(f"the thread {self._thread.name} was closed")
            self._calls.put(call)
        return call.result()

    def close(self) -> None:
        """End the thread once it has done what it was given.  Closing twice is closing once."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._calls.put(None)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _execute_calls(self) -> None:
        while (call := self._calls.get()) is not None:
            call.execute()
            del call  # the result is the caller's


def run_in_thread(function: Callable[[], T], name: str, failure: str = _FAILURE) -> T:
    """Call *function* in a thread of its own, as a worker for one call, and return its result.

    :param failure: begins the error of a thread that cannot be started.
    :raises BackendUnavailable: the machine has no thread left.
    """
    call = _Call(function)
    start_daemon_thread(name, failure, call.execute).join()
    return call.result()
