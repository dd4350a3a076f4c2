"""State of the machine's clock, as the kernel keeps it."""

from __future__ import annotations

import ctypes
import sys

_STRUCT_SIZE = 208
"""Size of ``struct timex`` with 64-bit words; later fields are reserved."""
_STATUS_OFFSET = 40
_UNSYNCHRONISED = 0x0040


def is_synchronised() -> bool | None:
    """Return whether a time service keeps the clock right; ``None``: the kernel does not say."""
    if sys.maxsize <= 2**32:
        return None
    record = ctypes.create_string_buffer(_STRUCT_SIZE)
    if ctypes.CDLL(None).adjtimex(record) < 0:
        return None
    status = ctypes.c_int.from_buffer(record, _STATUS_OFFSET).value
    return not status & _UNSYNCHRONISED
