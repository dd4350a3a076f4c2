"""Limits of what peers can write to a log, so that none of them can fill the disk."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict

AT_ONCE = 20
"""Lines about one sender at once; one per second after them."""
ALL_AT_ONCE = 200
"""Lines about all senders at once; ten per second after them."""
MAX_SENDERS = 1024


class LogBucket:
    """A token bucket of *size* lines, twenty times as many as it gets per second.

    Used by one thread.
    """

    def __init__(self, size: int = AT_ONCE) -> None:
        self._size, self._left, self._last = size, float(size), time.monotonic()
        self._suppressed = 0

    @property
    def is_empty(self) -> bool:
        """Whether the next line would be suppressed."""
        self._refill()
        return self._left < 1

    def take(self) -> int | None:
        """Return how many lines were suppressed before this one; ``None``: this one is, too."""
        if self.is_empty:
            self._suppressed += 1
            return None
        self._left -= 1
        before, self._suppressed = self._suppressed, 0
        return before

    def _refill(self) -> None:
        now = time.monotonic()
        self._left = min(self._size, self._left + (now - self._last) * self._size / AT_ONCE)
        self._last = now


class SenderLimit(logging.Filter):
    """Limits the lines about each sender, which is the attribute ``sender`` of a record.

    Senders may invent their names, so the lines about all of them are limited together, too.
    Records without a sender pass.  Of very many senders, those that were silent longest are
    forgotten.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._buckets: OrderedDict[object, LogBucket] = OrderedDict()
        self._all = LogBucket(ALL_AT_ONCE)

    def filter(self, record: logging.LogRecord) -> bool:
        sender = getattr(record, "sender", None)
        if sender is None:
            return True
        with self._lock:
            suppressed = self._take(sender)
        if suppressed:
            record.msg = f"{record.msg} (and {suppressed} more suppressed)"
        return suppressed is not None

    def _take(self, sender: object) -> int | None:
        """Return how many lines were suppressed; a line that its sender may not write costs the
        others nothing."""
        bucket = self._buckets.setdefault(sender, LogBucket())
        self._buckets.move_to_end(sender)
        if len(self._buckets) > MAX_SENDERS:
            self._buckets.popitem(last=False)
        if bucket.is_empty:
            return bucket.take()
        of_others = self._all.take()
        if of_others is None:
            return None
        return (bucket.take() or 0) + of_others
