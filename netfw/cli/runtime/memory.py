"""Memory settings of a daemon: malloc and garbage collector."""

from __future__ import annotations

import ctypes
import gc

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Of mallopt(3)."""
LARGE = 128 * 1024
ARENAS = 2
YOUNG = 10_000
"""New objects that trigger a collection of the youngest generation; a request makes thousands, and
the first pass of an agent hundreds of thousands."""


def tune_malloc() -> None:
    """Make malloc return the memory of a large response to the system, from any thread.

    Call it before threads start. Does nothing where the C library has no such settings.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for name, value in (
        (_ARENA_MAX, ARENAS),
        (_MMAP_THRESHOLD, LARGE),
        (_TRIM_THRESHOLD, LARGE),
    ):
        mallopt(name, value)


def tune_gc() -> None:
    """Exclude the modules loaded so far from garbage collection, and collect less often."""
    gc.freeze()
    gc.set_threshold(YOUNG, 10, 10)


def freeze_gc() -> None:
    """Exclude objects that stay (code, options, drivers) from garbage collection."""
    gc.collect()
    tune_gc()
