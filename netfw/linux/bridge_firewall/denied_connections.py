"""Which tracked connections the ports of Linux bridges no longer allow.  Pure.

A connection is evaluated by its first packet, against the installed rules of its ports: the rules
in force decide, whatever wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

from attrs import frozen

from netfw.linux.bridge_firewall.values import PortIndex
from netfw.linux.conntrack.entry import ConntrackTuple, Filter, TrackedConnection
from netfw.model.security_group import Direction
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import PortId, SecurityGroupId

GroupAllows = Callable[[SecurityGroupId, ConntrackTuple, Direction], bool]
"""Whether the rules of a group allow a connection that began with this packet."""


@frozen
class FlushConnections:
    """Remove the connections of *ports* that no rule allows, and all of *zones*."""

    ports: frozenset[PortId]
    zones: frozenset[int]

    def __str__(self) -> str:
        if not self.ports:
            return f"end all connections in zones {sorted(self.zones)}"
        text = f"end connections of {len(self.ports)} ports that no rule allows any more"
        return f"{text}, and all in zones {sorted(self.zones)}" if self.zones else text


@frozen(kw_only=True)
class DeniedConnections(Filter):
    """Selects connections by a predicate."""

    is_denied: Callable[[TrackedConnection], bool]

    def takes(self, connection: TrackedConnection) -> bool:
        return self.is_denied(connection)


@frozen(kw_only=True)
class DenialFinder:
    """Finds the connections that the installed rules deny."""

    index: PortIndex
    group_allows: GroupAllows

    def denied(self, ports: Iterable[PortId]) -> Callable[[TrackedConnection], bool]:
        """Return a predicate: the connection is one of *ports*, and no rule allows it."""
        present = self.index.ports
        concerned = {id for id in ports if id in present and not present[id].trusted}
        bridges = {present[id].location.bridge for id in concerned} & self.index.zones.keys()
        zones = {self.index.zones[bridge].number for bridge in bridges}
        neighbours: dict[int | None, _AddressOwners] = {
            zone: _AddressOwners(self.index) for zone in zones
        }
        for bridge, zone in self.index.zones.items():
            if zone.number in neighbours:
                neighbours[zone.number].add(self.index.on_bridge.get(bridge, frozenset()))

        def is_denied(connection: TrackedConnection) -> bool:
            owners = neighbours.get(connection.zone)
            if owners is None:
                return False
            flow = connection.original
            return self._is_refused(
                owners.find(flow.source), flow, concerned, Direction.EGRESS
            ) or self._is_refused(owners.find(flow.destination), flow, concerned, Direction.INGRESS)

        return is_denied

    def _is_refused(
        self,
        owners: Sequence[PortId],
        flow: ConntrackTuple,
        concerned: Container[PortId],
        direction: Direction,
    ) -> bool:
        """Return whether all *owners* of an address are concerned, and none allows the flow."""
        if not owners or any(id not in concerned for id in owners):
            return False
        groups = {group for id in owners for group in self.index.ports[id].groups}
        return not any(self.group_allows(group, flow, direction) for group in groups)


class _AddressOwners:
    """Ports of a zone by their source prefixes: a connection costs the same for any number."""

    def __init__(self, index: PortIndex) -> None:
        self._index = index
        self._ports: dict[tuple[int, int, int], list[PortId]] = {}
        """By IP version, length and bits of a prefix."""
        self._lengths: dict[int, list[int]] = {4: [], 6: []}

    def add(self, ports: Iterable[PortId]) -> None:
        """Add the prefixes of *ports*."""
        for id in ports:
            for version, lengths in self._lengths.items():
                for prefix in self._index.sources.get((id, version), ()):
                    key = _key(prefix.network_address, prefix.prefixlen)
                    self._ports.setdefault(key, []).append(id)
                    if prefix.prefixlen not in lengths:
                        lengths.append(prefix.prefixlen)
                        lengths.sort(reverse=True)

    def find(self, address: IpAddress) -> Sequence[PortId]:
        """Return the ports that may have *address*: those with its longest prefix."""
        for length in self._lengths[address.version]:
            if found := self._ports.get(_key(address, length)):
                return found
        return ()


def _key(address: IpAddress, length: int) -> tuple[int, int, int]:
    return address.version, length, int(address) >> (address.max_prefixlen - length)
