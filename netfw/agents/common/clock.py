"""Clock of the loop, which tests replace."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Monotonic time, and waiting for it."""

    def now(self) -> float:
        """Return seconds since a fixed moment in the past."""

    def wait(self, ready: threading.Event, seconds: float | None) -> None:
        """Return when *ready* is set or *seconds* have passed; ``None``: only when it is set."""


class SystemClock:
    """The monotonic clock of the machine."""

    def now(self) -> float:
        return time.monotonic()

    def wait(self, ready: threading.Event, seconds: float | None) -> None:
        ready.wait(seconds)
