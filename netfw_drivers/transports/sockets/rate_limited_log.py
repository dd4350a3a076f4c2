"""Rate-limited log, so that unauthenticated peers cannot fill the disk."""

from __future__ import annotations

import logging
import time

_AT_ONCE = 20
_PER_SECOND = 1.0


class RateLimitedLog:
    """Logs warnings with a token bucket: twenty lines at once, then one per second.

    Used by one thread.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._left, self._last = float(_AT_ONCE), time.monotonic()
        self._suppressed = 0

    def warning(self, line: str) -> None:
        """Log *line*, or count it."""
        now = time.monotonic()
        self._left = min(_AT_ONCE, self._left + (now - self._last) * _PER_SECOND)
        self._last = now
        if self._left < 1:
            self._suppressed += 1
            return
        self._left -= 1
        if self._suppressed:
            line = f"{line} (and {self._suppressed} more suppressed)"
            self._suppressed = 0
        self._log.warning("%s", line)
