"""State of the machine's clock, as the kernel keeps it."""

from __future__ import annotations

import ctypes
import enum
import sys

_STRUCT_SIZE = 208
"""Size of ``struct timex`` with 64-bit words; later fields are reserved."""
_STATUS_OFFSET = 40
_UNSYNCHRONISED = 0x0040


class ClockState(enum.Enum):
    """Whether a time service keeps the clock right."""

    SYNCHRONISED = enum.auto()
    UNSYNCHRONISED = enum.auto()
    UNKNOWN = enum.auto()
    """The kernel does not say."""


def read_clock_state() -> ClockState:
    """Return the state of the clock."""
    if sys.maxsize <= 2**32:
        return ClockState.UNKNOWN
    record = ctypes.create_string_buffer(_STRUCT_SIZE)
    if ctypes.CDLL(None).adjtimex(record) < 0:
        return ClockState.UNKNOWN
    status = ctypes.c_int.from_buffer(record, _STATUS_OFFSET).value
    return ClockState.UNSYNCHRONISED if status & _UNSYNCHRONISED else ClockState.SYNCHRONISED
