"""What the switch driver was told to hold, and who depends on whom.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import TypeVar

from netfw.drivers.keys import NetworkKey, PortKey
from netfw.drivers.switch_values import (
    Endpoint,
    FloodKey,
    Forwarding,
    ForwardingKey,
    LocalNetwork,
    SwitchKey,
    SwitchValue,
    Tunnel,
    Wiring,
)
from netfw.model.address import IpAddress
from netfw.model.ids import NetworkId
from netfw.model.segment import NetworkType

T = TypeVar("T")


class SwitchState:
    """Values by key, found by what they depend on without looking at all of them."""

    def __init__(self, values: Mapping[SwitchKey, SwitchValue] | None = None) -> None:
        self.values: dict[SwitchKey, SwitchValue] = {}
        self._users: dict[object, set[SwitchKey]] = defaultdict(set)
        self.commit(values or {}, ())

    def commit(self, put: Mapping[SwitchKey, SwitchValue], drop: Iterable[SwitchKey]) -> None:
        """Note that *put* is held now, and *drop* is not."""
        for key in (*drop, *put):
            before = self.values.pop(key, None)
            if before is not None:
                for used in _uses(key, before):
                    self._users[used].discard(key)
        for key, value in put.items():
            self.values[key] = value
            for used in _uses(key, value):
                self._users[used].add(key)

    def users(self, used: object) -> Set[SwitchKey]:
        """The keys that depend on *used*: a network, an endpoint, a type of tunnel, an address."""
        return self._users.get(used, frozenset())


class SwitchStateOverlay:
    """A book as it will be after an update, without touching it."""

    def __init__(
        self, book: SwitchState, put: Mapping[SwitchKey, SwitchValue], drop: Set[SwitchKey]
    ) -> None:
        self._book, self._fresh = book, SwitchState(put)
        self._touched = put.keys() | drop

    def get(self, key: SwitchKey, kind: type[T]) -> T | None:
        """The value of *key*, if it is held and a *kind*."""
        value = self._fresh.values.get(key)
        if value is None and key not in self._touched:
            value = self._book.values.get(key)
        return value if isinstance(value, kind) else None

    def before(self, key: SwitchKey) -> SwitchValue | None:
        """What was held before this update."""
        return self._book.values.get(key)

    def users(self, used: object) -> Iterator[SwitchKey]:
        """The keys that will depend on *used*."""
        yield from self._fresh.users(used)
        yield from (key for key in self._book.users(used) if key not in self._touched)

    def affected(self, used: object) -> set[SwitchKey]:
        """The keys that depend on *used* before or after this update."""
        return {*self._fresh.users(used), *self._book.users(used)}

    def rivals(self, key: ForwardingKey) -> set[SwitchKey]:
        """The entries that have an address in common with *key*, before or after this update."""
        values = self._book.values.get(key), self._fresh.values.get(key)
        entries = [value for value in values if isinstance(value, Forwarding)]
        addresses = {address for entry in entries for address in entry.addresses}
        return {
            rival
            for address in addresses
            for rival in self.affected(address_on(key.network, address))
        }

    def is_answered_for(self, key: ForwardingKey, address: IpAddress) -> bool:
        """Whether *address* is said to be at *key*: of several that have it, the lowest MAC."""
        users = self.users(address_on(key.network, address))
        rivals = [other.mac for other in users if isinstance(other, ForwardingKey)]
        return key.mac == min(rivals, key=str, default=None)

    def network(self, network: NetworkId) -> LocalNetwork | None:
        return self.get(NetworkKey(network), LocalNetwork)

    def ports(self, network: NetworkId) -> Iterator[PortKey]:
        yield from (key for key in self.affected(network) if isinstance(key, PortKey))

    def floods(self, network: NetworkId) -> Iterator[Endpoint]:
        """Where broadcast of *network* goes, by population."""
        users = self.users(network)
        yield from (key.endpoint for key in users if isinstance(key, FloodKey))

    def mesh(self, kind: NetworkType) -> Iterator[Endpoint]:
        """Where broadcast of every network of this *kind* goes."""
        for key in self.users(mesh_of(kind)):
            if isinstance(key, Endpoint):
                yield key


def mesh_of(kind: NetworkType) -> object:
    """What to ask for the tunnels that every network of a type floods into."""
    return "mesh", kind


def carried_by(kind: NetworkType) -> object:
    """What to ask for the networks that are carried by a type of tunnel."""
    return "carried by", kind


def address_on(network: NetworkId, address: IpAddress) -> object:
    """What to ask for the entries of a network that have an address."""
    return network, address


def _uses(key: SwitchKey, value: SwitchValue) -> Iterator[object]:
    match key, value:
        case PortKey(), Wiring():
            yield value.network
        case NetworkKey(), LocalNetwork():
            kinds = {segment.provider.network_type for segment in value.segments}
            yield from map(carried_by, kinds)
        case Endpoint(), Tunnel(mesh=True):
            yield mesh_of(key.type)
        case FloodKey(), _:
            yield key.network
            yield key.endpoint
        case ForwardingKey(), Forwarding():
            yield key.network
            yield value.endpoint
            for address in value.addresses:
                yield address_on(key.network, address)
