"""Signals handled on a thread of their own: handlers take no lock, so a burst cannot deadlock."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType

from netfw.drivers.support.daemon_thread import start_daemon_thread


class Signals:
    """Calls *on_stop* for SIGTERM and SIGINT and *on_hangup* for SIGHUP, each on its own thread.

    Several signals of one kind that arrive together are one call. Create it on the main thread.

    :raises BackendUnavailable: the machine has no thread left.
    """

    def __init__(self, on_stop: Callable[[], None], on_hangup: Callable[[], None]) -> None:
        self._calls = {
            signal.SIGTERM: on_stop,
            signal.SIGINT: on_stop,
            signal.SIGHUP: on_hangup,
        }
        self._came: dict[int, bool] = {}
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self._read, True)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in self._calls:
            signal.signal(number, self._note)
        start_daemon_thread("signals", "signals cannot be handled", self._listen)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._came[number] = True  # in case there was no room left in the pipe

    def _listen(self) -> None:
        """Read signal numbers from the wakeup pipe; the interpreter writes them before `_note`."""
        while numbers := os.read(self._read, 4096):
            for number, call in self._calls.items():
                if self._came.pop(number, False) or number in numbers:
                    call()
