"""Zones of connection tracking: one for each network, under its local VLAN.  Pure.

A VLAN that had another network before may have connections of that one left, and equal addresses.
So a zone is flushed before its first port is filtered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from netfw.drivers.values.keys import PortKey
from netfw.ovs.ovsdb.values import Port


class Zones:
    """Ports by zone, of the ports that were put."""

    def __init__(self) -> None:
        self._zone: dict[PortKey, int] = {}
        self._ports: dict[int, set[PortKey]] = {}

    def first_used(self, put: Mapping[PortKey, int], present: Iterable[PortKey]) -> frozenset[int]:
        """Return the zones that *put* is the first to use; *present* have flows already.

        The zones of ports that an earlier run has left are unknown until they are put again: until
        then nothing is flushed.
        """
        before = frozenset(present if put else ())
        if before - put.keys() - self._zone.keys():
            return frozenset()
        used = {zone for port, zone in put.items() if port in before}
        return frozenset(put.values()) - self._ports.keys() - used

    def note(self, put: Mapping[PortKey, int], gone: Iterable[PortKey]) -> None:
        """Record that the ports of *put* are filtered now, and *gone* are not."""
        for port in (*gone, *put):
            zone = self._zone.pop(port, None)
            if zone is not None:
                self._ports[zone].discard(port)
                if not self._ports[zone]:
                    del self._ports[zone]
        for port, zone in put.items():
            self._zone[port] = zone
            self._ports.setdefault(zone, set()).add(port)


def zone_of(port: Port) -> int | None:
    """Return the zone of a port, once the switch driver has recorded its local VLAN."""
    with suppress(ValueError):
        return int(port.other_config.get("tag", ""))
    return None
