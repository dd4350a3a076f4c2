"""conntrack: the connections that the kernel tracks, listed and removed."""

from netfw.linux.conntrack.entry import PROTOCOLS, Connection, ConntrackTuple, Filter, Status
from netfw.linux.conntrack.table import Conntrack

__all__ = ["PROTOCOLS", "Connection", "Conntrack", "ConntrackTuple", "Filter", "Status"]
