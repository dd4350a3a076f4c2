"""Back-off of keys whose processes die again and again.  Pure."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from netfw.agents.common.retry_queue import RetryBackoff

STEADY: Final = 30.0
"""Seconds without a death after which the back-off of a key is reset."""

_SMALL: Final = 64
"""Size of the table up to which keys that are steady again are kept in it."""


class DeathBackoff:
    """The delay of each key whose process died: none at first, then a growing one.

    A driver restarts its processes with a back-off of its own, which ends when the key is
    converged: that starts the process at once.
    """

    def __init__(self, pauses: RetryBackoff | None = None) -> None:
        self._pauses = pauses or RetryBackoff()
        self._deaths: dict[Hashable, tuple[int, float]] = {}
        """Number of deaths in a row, and until when the next one is one of them."""
        self._limit = _SMALL

    def record(self, key: Hashable, now: float) -> float:
        """Record a death; return the seconds until the key is to be converged."""
        deaths, until = self._deaths.get(key, (0, now))
        deaths = deaths if now < until else 0
        delay = self._pauses.after(deaths) if deaths else 0.0
        self._deaths[key] = deaths + 1, now + delay + STEADY
        if len(self._deaths) > self._limit:
            self._drop_steady(now)
        return delay

    def _drop_steady(self, now: float) -> None:
        """Drop the keys that are steady again, when the table has doubled since the last time."""
        self._deaths = {each: known for each, known in self._deaths.items() if now < known[1]}
        self._limit = max(_SMALL, 2 * len(self._deaths))
