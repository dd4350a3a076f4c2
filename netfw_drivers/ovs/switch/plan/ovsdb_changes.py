"""Rows of the database to change, by the stage they belong to.  Pure.

The stages of a plan, each safe to die after; of many rows, a stage becomes several:

0. *links*: the devices of bridge links are made, or removed; *unplugging*: link ends that have to
   be made anew are removed
1. *prepare*: bridges, links that are not joined yet, local VLANs, tunnels, records of ports; ports
   that will be dead, or change their network, are parked here
2. flows, one bundle for each bridge
3. *raising*: the devices of links are set up; *admit*: links are joined, ports get their tags
4. *release*: local VLANs that no flow uses any more
5. tunnels that no flow uses any more are removed, a few at a time
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attrs import define, field

from netfw.drivers.values.switch_values import SwitchKey
from netfw.errors import NetfwError
from netfw.linux.ip.operations import NetworkOperation
from netfw.ovs.ovsdb.operations import REMOVE_AT_ONCE, OvsdbOperation
from netfw.ovs.ovsdb.values import Snapshot
from netfw.plan import Operation, Stage
from netfw_drivers.ovs.common.ofport import ofport_of

OVSDB = "ovsdb"
LINKS = "links"
_LINK_ENDS, _TUNNELS = 0x7F00, 0x4000
"""First numbers that the driver requests for its ports, so that flows can be planned."""
CHANGE_AT_ONCE = 250
"""Rows to change in one transaction: while the switch handles them, it forwards nothing."""


@define
class OvsdbChanges:
    """Operations on the database by stage, and the numbers of ports."""

    snapshot: Snapshot
    links: list[Operation] = field(factory=list)
    unplugging: list[Operation] = field(factory=list)
    prepare: list[Operation] = field(factory=list)
    raising: list[Operation] = field(factory=list)
    admit: list[Operation] = field(factory=list)
    release: list[Operation] = field(factory=list)
    removals: list[Operation] = field(factory=list)
    waiting: dict[SwitchKey, str] = field(factory=dict)
    refused: dict[SwitchKey, NetfwError] = field(factory=dict)
    requested: dict[str, int] = field(factory=dict)
    """Numbers of ports that this plan adds."""
    blocked: dict[str, str] = field(factory=dict)
    """Bridges without a link, and what to do about it."""
    foreign: set[str] = field(factory=set)
    """Ports of others that have the names of links."""
    _taken: dict[str, set[int]] = field(factory=dict)

    def before(self) -> Iterator[Stage]:
        """Yield the stages before the flows."""
        yield from _stages(self.links, 1)
        yield from _stages(self.unplugging, CHANGE_AT_ONCE)
        yield from _stages(self.prepare, CHANGE_AT_ONCE)

    def after(self) -> Iterator[Stage]:
        """Yield the stages after the flows."""
        yield from _stages(self.raising, 1)
        yield from _stages(self.admit, CHANGE_AT_ONCE)
        yield from _stages(self.release, CHANGE_AT_ONCE)
        yield from _stages(self.removals, REMOVE_AT_ONCE)

    def number(self, name: str) -> int | None:
        """Return the number of a port that exists, or that this plan adds."""
        port = self.snapshot.ports.get(name)
        if name in self.requested:
            return self.requested[name]
        return None if port is None or name in self.foreign else ofport_of(port)

    def request_link_end(self, bridge: str, name: str) -> int:
        """Request a number; an end that is made anew keeps its number, and so its flows."""
        port = self.snapshot.ports.get(name)
        number = ofport_of(port) if port is not None else None
        if number is None:
            return self._request(bridge, name, _LINK_ENDS)
        self.requested[name] = number
        return number

    def request_tunnel(self, bridge: str, name: str) -> int:
        return self._request(bridge, name, _TUNNELS)

    def _request(self, bridge: str, name: str, start: int) -> int:
        if bridge not in self._taken:
            ports = (port for port in self.snapshot.ports.values() if port.bridge == bridge)
            self._taken[bridge] = {number for port in ports if (number := ofport_of(port))}
        taken = self._taken[bridge]
        number = next(candidate for candidate in range(start, 0xFF00) if candidate not in taken)
        taken.add(number)
        self.requested[name] = number
        return number


def _stages(operations: list[Operation], size: int) -> Iterator[Stage]:
    for start in range(0, len(operations), size):
        yield Stage(tuple(operations[start : start + size]))


def row(operation: OvsdbOperation, owners: Iterable[SwitchKey] = ()) -> Operation:
    return Operation(OVSDB, operation.text, frozenset(owners), operation)


def link(operation: NetworkOperation) -> Operation:
    return Operation(LINKS, operation.text, frozenset(), operation)


def differing(have: Mapping[str, str], want: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the keys of a map column to change."""
    return {key: value for key, value in want.items() if have.get(key) != value}
