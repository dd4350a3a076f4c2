"""The OpenFlow number of a port.  Pure."""

from __future__ import annotations

from netfw.ovs.ovsdb.values import OvsdbPort


def ofport_of(port: OvsdbPort) -> int | None:
    """Return the switch's number of *port*, or ``None`` while it has none."""
    number = port.interface.ofport
    return number if number is not None and number > 0 else None
