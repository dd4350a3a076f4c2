"""Rate-limited log, so that unauthenticated peers cannot fill the disk."""

from __future__ import annotations

import logging

from netfw.drivers.support.log_limit import LogBucket


class RateLimitedLog:
    """Logs warnings, twenty at once, then one per second.  Used by one thread."""

    def __init__(self, log: logging.Logger) -> None:
        self._log, self._bucket = log, LogBucket()

    def warning(self, line: str) -> None:
        """Log *line*, or count it."""
        suppressed = self._bucket.take()
        if suppressed is not None:
            more = f" (and {suppressed} more suppressed)" if suppressed else ""
            self._log.warning("%s%s", line, more)
