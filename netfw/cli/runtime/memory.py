"""What a long-running process asks of the interpreter, so that it stays small and steady."""

from __future__ import annotations

import ctypes
import gc

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Of mallopt(3)."""
LARGE = 128 * 1024
ARENAS = 2
YOUNG = 10_000
"""So many new objects make the collector look at the youngest: a request makes some thousands."""


def tune_malloc() -> None:
    """Have what one large answer took be given back after it, whichever thread made it.

    To be called before there are threads.  Where the C library has no such settings, nothing
    happens.
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


def freeze_gc() -> None:
    """Have the collector leave alone what is there now and will stay: code, options, drivers."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 10, 10)
