"""Ports of Linux bridges as a firewall indexes them, and the zones of their networks.  Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence, Set
from itertools import count
from typing import Protocol, TypeVar

from attrs import frozen

from netfw.drivers.firewall import FilteredPort
from netfw.errors import InvalidInput
from netfw.model.values.address import IpNetwork
from netfw.model.values.ids import NetworkId, PortId, SecurityGroupId

FIRST_ZONE = 4097

_DEVICE = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.@-]{0,14}")

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Hashable)


def check_device(device: str) -> str:
    """Return *device* if it is a valid name.

    :raises InvalidInput: a backend could misread it.
    """
    if not _DEVICE.fullmatch(str(device)):
        raise InvalidInput({"device": f"{device!r} is not the name of a device"})
    return device


@frozen
class PortLocation:
    """Device and Linux bridge on which a port is filtered."""

    device: str
    bridge: str


@frozen
class Zone:
    """The conntrack zone of a network that a bridge carries.

    Without a number, connections are not tracked: on the private bridge of a trusted port.  Its
    packets do not affect what their receivers allow.
    """

    number: int | None
    network: NetworkId


@frozen(kw_only=True)
class IndexedPort:
    """Port as the installed rules describe it."""

    location: PortLocation
    network: NetworkId
    trusted: bool
    groups: frozenset[SecurityGroupId] = frozenset()


class SetIndex(defaultdict[K, set[V]]):
    """Sets by key, without empty sets."""

    def __init__(self) -> None:
        super().__init__(set)

    def discard_value(self, key: K, value: V) -> None:
        if key in self:
            self[key].discard(value)
            if not self[key]:
                del self[key]


class PortIndex(Protocol):
    """Ports, and bridges with their zones, as they are on the host."""

    @property
    def ports(self) -> Mapping[PortId, IndexedPort]: ...
    @property
    def on_bridge(self) -> Mapping[str, Set[PortId]]: ...
    @property
    def zones(self) -> Mapping[str, Zone]:
        """Zones by bridge."""

    @property
    def further_zones(self) -> Collection[Zone]:
        """Zones that rules in force assign, and `zones` may lack."""

    @property
    def sources(self) -> Mapping[tuple[PortId, int], Collection[IpNetwork]]:
        """Source prefixes by port and IP version."""

    def port_with(self, device: str) -> PortId | None:
        """Return the port that is filtered on *device*."""


Locate = Callable[[str], str]
"""Maps the device of a port to that on a Linux bridge."""


@frozen
class BridgePorts:
    """Bridges by the names of the devices that exist."""

    bridges: Mapping[str, str | None]
    locate: Locate
    owner: str
    """Prefix of the driver's chains and sets, or its table."""
    private: bool = False
    """Each port has a bridge of its own."""

    def location(self, device: str) -> PortLocation | str:
        """Return where a port's device is filtered, or the reason why it is not.

        :raises InvalidInput: it cannot be the device of a port.
        """
        found = check_device(self.locate(check_device(device)))
        if found not in self.bridges:
            return f"there is no device {found} yet"
        bridge = self.bridges[found]
        if bridge is None:
            return f"device {found} is on no Linux bridge yet"
        return PortLocation(found, bridge)


class LocatedPort(Protocol):
    """A port of an update, and where it will be filtered."""

    @property
    def port(self) -> FilteredPort: ...
    @property
    def location(self) -> PortLocation: ...


def find_conflicts(
    wanted: Mapping[PortId, LocatedPort], gone: Collection[PortId], index: PortIndex
) -> dict[PortId, str]:
    """Return the ports whose device or bridge is that of another, with the reason."""
    conflicts: dict[PortId, str] = {}
    devices: dict[str, PortId] = {}
    networks = {b: zone.network for b, zone in _staying(wanted, gone, index).items()}
    for id in sorted(wanted):
        port, location = wanted[id].port, wanted[id].location
        holder = index.port_with(location.device)
        keeps = holder is not None and holder not in wanted and holder not in gone
        first = devices.setdefault(location.device, holder if holder and keeps else id)
        network = networks.setdefault(location.bridge, port.network)
        if first != id:
            conflicts[id] = f"device {port.device} is that of port {first} already"
        elif network != port.network:
            conflicts[id] = (
                f"bridge {location.bridge} carries network {network}, not {port.network}"
            )
    return conflicts


def _staying(
    wanted: Mapping[PortId, LocatedPort], gone: Collection[PortId], index: PortIndex
) -> dict[str, Zone]:
    """Return the zones of bridges that keep ports outside of this update."""
    moved = wanted.keys() | set(gone)
    bridges = {each.location.bridge for each in wanted.values()}
    return {
        bridge: index.zones[bridge]
        for bridge in bridges
        if bridge in index.zones and index.on_bridge.get(bridge, frozenset()) - moved
    }


@frozen
class ZoneChange:
    """Zones of the bridges that an update touches, without removed ones."""

    zones: dict[str, Zone]
    left: frozenset[str]
    """Bridges that ports leave, perhaps to return, or that have no port."""
    gone: frozenset[int]
    """Numbers that no bridge has any more."""
    new: frozenset[int]
    """Numbers that no bridge had: the kernel may have connections of other networks in them."""


def plan_zones(
    wanted: Mapping[PortId, LocatedPort],
    gone: Collection[PortId],
    index: PortIndex,
    *,
    private: bool,
    thorough: bool,
) -> ZoneChange:
    """Choose the zones of bridges: a network keeps its number as long as it has a port.

    :param thorough: also bridges without any port are left.
    """
    taken = frozenset(zone.number for zone in index.zones.values() if zone.number)
    numbers = _numbers_of_networks(index, taken)
    assigned = frozenset(numbers.values()) | taken
    zones = _zones_of(wanted, numbers, assigned, private=private)
    moved: Sequence[PortId] = [*wanted.keys(), *gone]
    left = {index.ports[id].location.bridge for id in moved if id in index.ports}
    if thorough:
        left |= index.zones.keys() - index.on_bridge.keys()
    for bridge in left - zones.keys():
        if index.on_bridge.get(bridge, frozenset()) - set(moved) and bridge in index.zones:
            zones[bridge] = index.zones[bridge]
    stays = [zone for bridge, zone in index.zones.items() if bridge not in left]
    used = frozenset(zone.number for zone in [*stays, *zones.values()] if zone.number)
    return ZoneChange(zones, frozenset(left), gone=taken - used, new=used - assigned)


def _numbers_of_networks(index: PortIndex, taken: Collection[int]) -> dict[NetworkId, int]:
    """Return the numbers that networks have, by the zones of bridges first."""
    numbers = {zone.network: zone.number for zone in index.zones.values() if zone.number}
    further = {
        zone.network: zone.number
        for zone in index.further_zones
        if zone.number and zone.number not in taken
    }
    return further | numbers


def _zones_of(
    wanted: Mapping[PortId, LocatedPort],
    numbers: Mapping[NetworkId, int],
    assigned: Collection[int],
    *,
    private: bool,
) -> dict[str, Zone]:
    """Return the zones of the bridges of *wanted*; networks without a number get a free one."""
    fresh = (number for number in count(FIRST_ZONE) if number not in assigned)
    chosen = dict(numbers)
    zones: dict[str, Zone] = {}
    for id in sorted(wanted):
        port, bridge = wanted[id].port, wanted[id].location.bridge
        if private and port.trusted:
            zones[bridge] = Zone(None, port.network)
            continue
        if port.network not in chosen:
            chosen[port.network] = next(fresh)
        zones[bridge] = Zone(chosen[port.network], port.network)
    return zones
