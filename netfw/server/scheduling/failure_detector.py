"""Suspicion: which agents are dead, and not merely unheard of while the server was away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection


class FailureDetector:
    """Remembers since when this process has seen hosts be dead.

    After the servers or the database were away, every agent has been silent for long.  Only who is
    still silent after *grace* seconds of looking on is dead.  Who looks seldom begins anew: nobody
    may have been able to report in between.
    """

    def __init__(
        self, grace: float, attention: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """*attention*: seconds between two looks at most."""
        self._grace, self._attention, self._clock = grace, attention, clock
        self._since: dict[str, float] = {}
        self._looked = clock()
        self._lock = threading.Lock()

    def confirmed(self, silent: Collection[str]) -> frozenset[str]:
        """Those of the hosts that are *silent* now that have been so for long enough."""
        with self._lock:
            now = self._clock()
            if now - self._looked > self._attention:
                self._since.clear()
            self._looked = now
            self._since = {host: self._since.get(host, now) for host in silent}
            return frozenset(
                host for host, since in self._since.items() if now - since >= self._grace
            )
