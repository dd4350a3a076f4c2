"""Seconds: the type of options that say how long to wait."""

from __future__ import annotations

import math

from oslo_config import types


class Seconds(types.Float):
    """A finite number of seconds; ``nan`` compares with nothing and ``inf`` waits for ever."""

    def __call__(self, value: object) -> int | float | None:
        seconds = super().__call__(value)
        if seconds is not None and not math.isfinite(seconds):
            raise ValueError(f"not a number of seconds: {value}")
        return seconds
