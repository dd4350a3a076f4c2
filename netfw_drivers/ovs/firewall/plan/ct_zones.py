"""Zones of connection tracking: one for each network, under its local VLAN.  Pure.

A VLAN that had another network before may have connections of that one left, and equal addresses.
So a zone is emptied before its first port is filtered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from netfw.drivers.keys import PortKey
from netfw.ovs.ovsdb.values import Port


class Zones:
    """Which ports are in which zone, as far as anybody was told."""

    def __init__(self) -> None:
        self._zone: dict[PortKey, int] = {}
        self._ports: dict[int, set[PortKey]] = {}

    def first_used(self, put: Mapping[PortKey, int], held: Iterable[PortKey]) -> frozenset[int]:
        """The zones that *put* is the first to use, while *held* have flows already.

        Of ports that an earlier run has left nobody knows their zones, until they are put again:
        until then nothing is emptied.
        """
        before = frozenset(held if put else ())
        if before - put.keys() - self._zone.keys():
            return frozenset()
        used = {zone for port, zone in put.items() if port in before}
        return frozenset(put.values()) - self._ports.keys() - used

    def note(self, put: Mapping[PortKey, int], gone: Iterable[PortKey]) -> None:
        """These ports are filtered now, and those are not any more."""
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
    """The zone of a port's connections, once the switch driver has recorded its local VLAN."""
    with suppress(ValueError):
        return int(port.other_config.get("tag", ""))
    return None
