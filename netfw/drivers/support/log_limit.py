"""Limits of what peers can write to a log, so that none of them can fill the disk."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict

AT_ONCE = 20
PER_SECOND = 1.0
MAX_SENDERS = 1024


class LogBucket:
    """A token bucket: twenty lines at once, then one per second.  Used by one thread."""

    def __init__(self) -> None:
        self._left, self._last = float(AT_ONCE), time.monotonic()
        self._suppressed = 0

    def take(self) -> int | None:
        """Return how many lines were suppressed before this one; ``None``: this one is, too."""
        now = time.monotonic()
        self._left = min(AT_ONCE, self._left + (now - self._last) * PER_SECOND)
        self._last = now
        if self._left < 1:
            self._suppressed += 1
            return None
        self._left -= 1
        before, self._suppressed = self._suppressed, 0
        return before


class SenderLimit(logging.Filter):
    """Limits the lines about each sender, which is the attribute ``sender`` of a record.

    Records without one pass.  Of very many senders, those that were silent longest are forgotten.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._buckets: OrderedDict[object, LogBucket] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        sender = getattr(record, "sender", None)
        if sender is None:
            return True
        with self._lock:
            bucket = self._buckets.setdefault(sender, LogBucket())
            self._buckets.move_to_end(sender)
            if len(self._buckets) > MAX_SENDERS:
                self._buckets.popitem(last=False)
            suppressed = bucket.take()
        if suppressed:
            record.msg = f"{record.msg} (and {suppressed} more suppressed)"
        return suppressed is not None
