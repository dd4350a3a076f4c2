"""Watchdog reports of a daemon to systemd or to its supervisor."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from netfw.drivers.support.daemon_thread import start_daemon_thread

LOG = logging.getLogger(__name__)
SHARE = 4
"""Signs of life within the time of the watchdog: one that is lost or late ends nothing."""

StuckReason = Callable[[], str]
"""Returns why the daemon does not get on with its work; empty when it does.  Cheap, any thread."""


class LifeMonitor(Protocol):
    """Supervisor that ends a daemon which stops reporting: systemd, or the parent of a worker."""

    @property
    def watchdog(self) -> float | None:
        """Seconds without a sign after which it does; ``None``: never."""

    def report_alive(self) -> None:
        """Give a sign of life; does not wait."""


class Watchdog:
    """Reports that a daemon is alive, until *stuck_reason* has a reason; a context manager.

    The period follows from the time of the monitor's watchdog alone.  Without a watchdog there is
    no thread.
    """

    def __init__(self, monitor: LifeMonitor, stuck_reason: StuckReason) -> None:
        self._monitor, self._stuck_reason = monitor, stuck_reason
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        if self._monitor.watchdog is not None:
            period = self._monitor.watchdog / SHARE
            self._thread = start_daemon_thread("watchdog", "the watchdog", self._run, period)

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, period: float) -> None:
        logged = ""
        while not self._stopped.is_set():
            reason = self._stuck_reason()
            if not reason:
                self._monitor.report_alive()
            elif not logged:
                LOG.error("watchdog: %s; this process will be ended", reason)
            logged = reason
            self._stopped.wait(period)
