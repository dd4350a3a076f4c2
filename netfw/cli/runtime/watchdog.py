"""Signs of life of a daemon for the watchdog of its service manager."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from netfw.cli.runtime.service_manager import ServiceManager

LOG = logging.getLogger(__name__)
SHARE = 4
"""Signs of life within the time of the watchdog: one that is lost or late ends nothing."""

StuckReason = Callable[[], str]
"""Returns why the daemon does not get on with its work; empty when it does.  Cheap, any thread."""


class Watchdog:
    """Reports that a daemon is alive, until *stuck_reason* has a reason; a context manager.

    The period follows from the time of the manager's watchdog alone.  Without a watchdog there is
    no thread.
    """

    def __init__(self, manager: ServiceManager, stuck_reason: StuckReason) -> None:
        self._manager, self._stuck_reason = manager, stuck_reason
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        if self._manager.watchdog is not None:
            period = self._manager.watchdog / SHARE
            self._thread = threading.Thread(
                target=self._run, args=(period,), name="watchdog", daemon=True
            )
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, period: float) -> None:
        logged = ""
        while not self._stopped.is_set():
            reason = self._stuck_reason()
            if not reason:
                self._manager.report_alive()
            elif not logged:
                LOG.error("watchdog: %s; the service manager will end this process", reason)
            logged = reason
            self._stopped.wait(period)
