"""Zones of connection tracking: one for each network, under its local VLAN.  Pure.

A VLAN that had another network before may have connections of that one left, and equal addresses.
So a zone is flushed before its first port is filtered.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from contextlib import suppress

from netfw.drivers.values.keys import PortKey
from netfw.ovs.ovsdb.values import OvsdbPort


class CtZonePorts:
    """Ports by zone, of the ports that were put.  An update costs the ports that it names."""

    def __init__(self) -> None:
        self._zone: dict[PortKey, int] = {}
        self._ports: dict[int, set[PortKey]] = {}
        self._unknown: set[PortKey] = set()
        """Ports that have flows, and whose zone is unknown."""

    def recover(self, present: Iterable[PortKey]) -> None:
        """Record that *present* have flows of an earlier run, in zones that are unknown."""
        self._unknown = {port for port in present if port not in self._zone}

    def first_used(
        self,
        put: Mapping[PortKey, int | None],
        present: Container[PortKey],
        gone: Container[PortKey] = (),
    ) -> frozenset[int]:
        """Return the zones that *put* is the first to use; *present* have flows already.

        Until the ports of unknown zones are put again, or are *gone* by now, nothing is flushed.
        """
        if any(put.get(port) is None and port not in gone for port in self._unknown):
            return frozenset()
        zones = {zone for zone in put.values() if zone is not None}
        return frozenset(
            zones - self._ports.keys() - {put[port] for port in put if port in present}
        )

    def note(self, put: Mapping[PortKey, int | None], gone: Iterable[PortKey]) -> None:
        """Record that the ports of *put* are filtered now, and *gone* are not.

        A zone is ``None`` while it is unknown.
        """
        for port in gone:
            self._remove(port)
        for port, zone in put.items():
            if zone is not None:
                self._remove(port)
                self._zone[port] = zone
                self._ports.setdefault(zone, set()).add(port)
            elif port not in self._zone:
                self._unknown.add(port)

    def _remove(self, port: PortKey) -> None:
        self._unknown.discard(port)
        zone = self._zone.pop(port, None)
        if zone is not None:
            self._ports[zone].discard(port)
            if not self._ports[zone]:
                del self._ports[zone]


def zone_of(port: OvsdbPort) -> int | None:
    """Return the zone of a port, once the switch driver has recorded its local VLAN."""
    with suppress(ValueError):
        return int(port.other_config.get("tag", ""))
    return None
