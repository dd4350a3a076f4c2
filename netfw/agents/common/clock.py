"""Time, as a thing that a test can hold in its hand."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Seconds that only grow, and waiting."""

    def now(self) -> float:
        """Seconds since some moment in the past."""

    def wait(self, news: threading.Event, seconds: float | None) -> None:
        """Return when *news* is set or *seconds* have passed; ``None``: only when it is set."""


class SystemClock:
    """The clock of the machine."""

    def now(self) -> float:
        return time.monotonic()

    def wait(self, news: threading.Event, seconds: float | None) -> None:
        news.wait(seconds)
