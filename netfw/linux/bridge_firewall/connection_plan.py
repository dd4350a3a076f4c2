"""Which tracked connections the ports of Linux bridges no longer allow.  Pure.

A connection is evaluated by its first packet, against the installed rules of its ports: the rules
in force decide, whatever wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from attrs import frozen

from netfw.linux.bridge_firewall.values import PortIndex
from netfw.linux.conntrack.entry import Connection, ConntrackTuple, Filter
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

    is_denied: Callable[[Connection], bool]

    def takes(self, connection: Connection) -> bool:
        return self.is_denied(connection)


@frozen(kw_only=True)
class DenialFinder:
    """Finds the connections that the installed rules deny."""

    index: PortIndex
    group_allows: GroupAllows

    def denied(self, ports: Iterable[PortId]) -> Callable[[Connection], bool]:
        """Return a predicate: the connection is one of *ports*, and no rule allows it."""
        present = self.index.ports
        concerned = {id for id in ports if id in present and not present[id].trusted}
        bridges = {present[id].location.bridge for id in concerned} & self.index.zones.keys()
        zones = {self.index.zones[bridge].number for bridge in bridges}
        neighbours: dict[int | None, set[PortId]] = {zone: set() for zone in zones}
        for bridge, zone in self.index.zones.items():
            if zone.number in neighbours:
                neighbours[zone.number] |= self.index.on_bridge.get(bridge, frozenset())

        def is_denied(connection: Connection) -> bool:
            candidates = neighbours.get(connection.zone)
            if not candidates:
                return False
            flow = connection.original
            return self._is_refused(flow.source, flow, candidates, concerned, Direction.EGRESS) or (
                self._is_refused(flow.destination, flow, candidates, concerned, Direction.INGRESS)
            )

        return is_denied

    def _is_refused(
        self,
        address: IpAddress,
        flow: ConntrackTuple,
        candidates: Iterable[PortId],
        concerned: Container[PortId],
        direction: Direction,
    ) -> bool:
        """Return whether all ports with *address* are concerned, and none allows the flow."""
        owners = self._owners(address, candidates)
        if not owners or any(id not in concerned for id in owners):
            return False
        groups = {group for id in owners for group in self.index.ports[id].groups}
        return not any(self.group_allows(group, flow, direction) for group in groups)

    def _owners(self, address: IpAddress, candidates: Iterable[PortId]) -> list[PortId]:
        """Return the ports that may have *address*: those with its longest prefix."""
        best, found = -1, list[PortId]()
        for id in candidates:
            for prefix in self.index.sources.get((id, address.version), ()):
                if address not in prefix or prefix.prefixlen < best:
                    continue
                if prefix.prefixlen > best:
                    best, found = prefix.prefixlen, []
                found.append(id)
        return found
