"""conntrack: the connections that the kernel tracks, listed and removed."""

from netfw.linux.conntrack.entry import (
    PROTOCOLS,
    ConntrackStatus,
    ConntrackTuple,
    Filter,
    TrackedConnection,
)
from netfw.linux.conntrack.table import Conntrack

__all__ = [
    "PROTOCOLS",
    "Conntrack",
    "ConntrackStatus",
    "ConntrackTuple",
    "Filter",
    "TrackedConnection",
]
