"""Log lines about strangers, who must not be able to fill a disk with them."""

from __future__ import annotations

import logging
import time

_AT_ONCE = 20
_PER_SECOND = 1.0


class RateLimitedLog:
    """Says what strangers do: twenty lines at once, after that one each second.

    Used by one thread.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._left, self._last = float(_AT_ONCE), time.monotonic()
        self._unsaid = 0

    def warning(self, line: str) -> None:
        """Log *line*, or count it."""
        now = time.monotonic()
        self._left = min(_AT_ONCE, self._left + (now - self._last) * _PER_SECOND)
        self._last = now
        if self._left < 1:
            self._unsaid += 1
            return
        self._left -= 1
        if self._unsaid:
            line = f"{line} (and {self._unsaid} more that are not shown)"
            self._unsaid = 0
        self._log.warning("%s", line)
