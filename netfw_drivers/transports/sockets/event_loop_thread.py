"""Thread with the event loop that reads and writes all sockets of a transport."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.errors import BackendUnavailable

T = TypeVar("T")


class LoopThread:
    """Event loop in a thread of its own, started on first use."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def started(self) -> bool:
        """Whether the thread was started."""
        return self._loop is not None

    @property
    def closed(self) -> bool:
        """Whether the loop was closed."""
        return self._closed

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Call *callback* in the loop's thread, unless the loop is closed.

        :raises BackendUnavailable: the machine has no thread left.
        """
        with self._lock:
            if not self._closed:
                self._running().call_soon_threadsafe(callback, *arguments)

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run *work* in the loop's thread.

        :raises BackendUnavailable: the machine has no thread left; *work* is closed.
        """
        with self._lock:
            if self._closed:
                work.close()
                cancelled: Future[T] = Future()
                cancelled.cancel()
                return cancelled
            try:
                return asyncio.run_coroutine_threadsafe(work, self._running())
            except BackendUnavailable:
                work.close()
                raise

    def close(self) -> None:
        """Stop loop and thread, and cancel pending tasks.  Idempotent."""
        with self._lock:
            loop, thread, self._closed = self._loop, self._thread, True
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            loop = asyncio.new_event_loop()
            try:
                self._thread = start_daemon_thread(self._name, self._name, _run, loop)
            except BackendUnavailable:
                loop.close()
                raise
            self._loop = loop
        return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(_cancel_tasks())
    finally:
        loop.close()


async def _cancel_tasks() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await asyncio.sleep(0)  # lets closed connections run their callbacks
    await asyncio.get_running_loop().shutdown_default_executor()  # it resolves names
