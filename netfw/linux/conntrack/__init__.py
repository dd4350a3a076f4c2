"""conntrack: the connections that the kernel tracks, listed and removed."""

from netfw.linux.conntrack.entry import PROTOCOLS, Connection, Filter, Flow, Status
from netfw.linux.conntrack.table import Conntrack

__all__ = ["PROTOCOLS", "Connection", "Conntrack", "Filter", "Flow", "Status"]
