"""The state of the switch driver: applied values, reverse dependencies, live ports.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Set
from typing import TypeVar

from netfw.drivers.values.keys import HostKey, NetworkKey, PortKey
from netfw.drivers.values.switch_values import (
    Endpoint,
    FloodKey,
    Forwarding,
    ForwardingKey,
    HostMac,
    LocalNetwork,
    SwitchKey,
    SwitchValue,
    Tunnel,
    Wiring,
)
from netfw.model.segment import NetworkType
from netfw.model.values.address import IpAddress, Mac
from netfw.model.values.ids import NetworkId, PortId
from netfw.plan.overlay import MultiMap, MultiMapOverlay, Overlay
from netfw_drivers.ovs.common.local_vlans import BroadcastDomain
from netfw_drivers.ovs.pipeline.br_int import Chunk, PlannedPort, Receiver

T = TypeVar("T")
OWN_HOST = "own host"
"""The `users` key of the host MAC of this host."""
ROUTED_NETWORKS = "routed networks"
"""The `users` key of the networks with distributed routers."""


class SwitchState:
    """Values by key, found by what they depend on without a scan of all of them."""

    def __init__(self, values: Mapping[SwitchKey, SwitchValue] | None = None) -> None:
        self.values: MutableMapping[SwitchKey, SwitchValue] = {}
        self._users: MultiMap[object, SwitchKey] = MultiMap()
        self.commit(values or {}, ())

    def commit(self, put: Mapping[SwitchKey, SwitchValue], drop: Iterable[SwitchKey]) -> None:
        """Record that *put* is on the machine now, and *drop* is not."""
        for key in drop:
            self._set_users(key, None)
            self.values.pop(key, None)
        for key, value in put.items():
            self._set_users(key, value)
            self.values[key] = value

    def users(self, used: object) -> Set[SwitchKey]:
        """Return the keys that depend on *used*.

        That is a network, an endpoint, what `mesh_of`, `carried_by`, `trunk_of` or `address_on`
        returns,
        `OWN_HOST` or `ROUTED_NETWORKS`.
        """
        return self._users.values_of(used)

    def own_mac(self) -> Mac | None:
        """Return the MAC address of what the distributed routers of this host send, if known."""
        values = (self.values[key] for key in self.users(OWN_HOST))
        return min((value.mac for value in values if isinstance(value, HostMac)), default=None)

    def _set_users(self, key: SwitchKey, value: SwitchValue | None) -> None:
        former = self.values.get(key)
        if former == value:
            return
        before = set() if former is None else {*_uses(key, former)}
        after = set() if value is None else {*_uses(key, value)}
        for used in before - after:
            self._users.remove(used, key)
        for used in after - before:
            self._users.add(used, key)


class SwitchStateOverlay(SwitchState):
    """The state as it will be after an update; *base* stays as it is."""

    def __init__(
        self, base: SwitchState, put: Mapping[SwitchKey, SwitchValue], drop: Set[SwitchKey]
    ) -> None:
        self._base = base
        self.values = Overlay(base.values)
        self._users = MultiMapOverlay(base._users)
        self.commit(put, drop)

    def get(self, key: SwitchKey, kind: type[T]) -> T | None:
        """Return the value of *key*, if it has one and that is a *kind*."""
        value = self.values.get(key)
        return value if isinstance(value, kind) else None

    def before(self, key: SwitchKey) -> SwitchValue | None:
        """Return the value of *key* before this update."""
        return self._base.values.get(key)

    def own_mac_changes(self) -> bool:
        """Return whether this update changes the MAC address of this host."""
        return self.own_mac() != self._base.own_mac()

    def affected(self, used: object) -> set[SwitchKey]:
        """Return the keys that depend on *used* before or after this update."""
        return {*self.users(used), *self._base.users(used)}

    def rivals(self, key: ForwardingKey) -> set[SwitchKey]:
        """Return the entries that share an address with *key*, before or after this update."""
        values = self._base.values.get(key), self.values.get(key)
        entries = [value for value in values if isinstance(value, Forwarding)]
        addresses = {address for entry in entries for address in entry.addresses}
        return {
            rival
            for address in addresses
            for rival in self.affected(address_on(key.network, address))
        }

    def is_answered_for(self, key: ForwardingKey, address: IpAddress) -> bool:
        """Return whether *address* is answered for with *key*; of several, the lowest MAC is."""
        users = self.users(address_on(key.network, address))
        rivals = [other.mac for other in users if isinstance(other, ForwardingKey)]
        return key.mac == min(rivals, key=str, default=None)

    def network(self, network: NetworkId) -> LocalNetwork | None:
        return self.get(NetworkKey(network), LocalNetwork)

    def ports(self, network: NetworkId) -> Iterator[PortKey]:
        yield from (key for key in self.affected(network) if isinstance(key, PortKey))

    def sub_ports(self, parent: PortId) -> Iterator[PortKey]:
        """Yield the sub-ports of *parent* before or after this update."""
        yield from (key for key in self.affected(trunk_of(parent)) if isinstance(key, PortKey))

    def floods(self, network: NetworkId) -> Iterator[Endpoint]:
        """Yield the endpoints that population floods broadcast of *network* to."""
        users = self.users(network)
        yield from (key.endpoint for key in users if isinstance(key, FloodKey))

    def mesh(self, kind: NetworkType) -> Iterator[Endpoint]:
        """Yield the endpoints that broadcast of every network of this *kind* goes to."""
        for key in self.users(mesh_of(kind)):
            if isinstance(key, Endpoint):
                yield key


class DomainMembers:
    """Live ports, found by domain and by chunk of a domain's broadcast flows."""

    def __init__(self, ports: Mapping[PortKey, PlannedPort] | None = None) -> None:
        self.ports: MutableMapping[PortKey, PlannedPort] = {}
        self._by_chunk: MultiMap[Chunk, PortKey] = MultiMap()
        self._chunks: MultiMap[BroadcastDomain, Chunk] = MultiMap()
        self._open: MultiMap[BroadcastDomain, PortKey] = MultiMap()
        self.commit(ports or {}, ())

    def commit(self, live: Mapping[PortKey, PlannedPort], dead: Iterable[PortKey]) -> None:
        """Record that *live* take part in their networks now, and *dead* do not."""
        for key in (*dead, *live):
            self._remove(key)
        for key, port in live.items():
            self.ports[key] = port
            self._by_chunk.add(port.chunk, key)
            self._chunks.add(port.domain, port.chunk)
            if port.open:
                self._open.add(port.domain, key)

    def all_chunks(self) -> set[Chunk]:
        return {chunk for _, chunk in self._chunks}

    def chunks(self, domain: BroadcastDomain) -> tuple[int, ...]:
        """Return the chunks of *domain* that have ports."""
        return tuple(sorted(number for _, number in self._chunks.values_of(domain)))

    def receivers(self, chunk: Chunk) -> tuple[Receiver, ...]:
        """Return the ports of *chunk*, by number."""
        return self._receivers(self._by_chunk.values_of(chunk))

    def open_ports(self, domain: BroadcastDomain) -> tuple[Receiver, ...]:
        """Return the ports of *domain* with other MAC addresses behind them, by number."""
        return self._receivers(self._open.values_of(domain))

    def _receivers(self, keys: Set[PortKey]) -> tuple[Receiver, ...]:
        return tuple(sorted(self.ports[key].receiver for key in keys))

    def _remove(self, key: PortKey) -> None:
        port = self.ports.pop(key, None)
        if port is None:
            return
        self._by_chunk.remove(port.chunk, key)
        self._open.remove(port.domain, key)
        if not self._by_chunk.has_key(port.chunk):
            self._chunks.remove(port.domain, port.chunk)


class DomainMembersOverlay(DomainMembers):
    """Live ports as they will be after an update of *concerned*; *base* stays as it is."""

    def __init__(
        self, base: DomainMembers, live: Mapping[PortKey, PlannedPort], concerned: Set[PortKey]
    ) -> None:
        self._base, self._concerned = base, concerned
        self.ports = Overlay(base.ports)
        self._by_chunk = MultiMapOverlay(base._by_chunk)
        self._chunks = MultiMapOverlay(base._chunks)
        self._open = MultiMapOverlay(base._open)
        self.commit(live, concerned)

    def touched(self) -> set[Chunk]:
        """Return the chunks that this update may change."""
        sides = (self._base.ports, self.ports)
        ports = (side.get(key) for side in sides for key in self._concerned)
        return {port.chunk for port in ports if port is not None}

    def everything(self) -> set[Chunk]:
        """Return all chunks before and after this update."""
        return self._base.all_chunks() | self.all_chunks()


def mesh_of(kind: NetworkType) -> object:
    """Return the `users` key of the tunnels that every network of a type floods into."""
    return "mesh", kind


def carried_by(kind: NetworkType) -> object:
    """Return the `users` key of the networks that a type of tunnel carries."""
    return "carried by", kind


def trunk_of(parent: PortId) -> object:
    """Return the `users` key of the sub-ports of a parent port."""
    return "trunk of", parent


def address_on(network: NetworkId, address: IpAddress) -> object:
    """Return the `users` key of the entries of a network that have an address."""
    return network, address


def _uses(key: SwitchKey, value: SwitchValue) -> Iterator[object]:
    match key, value:
        case PortKey(), Wiring():
            yield value.network
            if value.subport is not None:
                yield trunk_of(value.subport.parent)
        case NetworkKey(), LocalNetwork():
            kinds = {segment.provider.network_type for segment in value.segments}
            yield from map(carried_by, kinds)
            if value.router_interfaces:
                yield ROUTED_NETWORKS
        case Endpoint(), Tunnel(mesh=True):
            yield mesh_of(key.type)
        case HostKey(), HostMac():
            yield from value.endpoints
            if value.own:
                yield OWN_HOST
        case FloodKey(), _:
            yield key.network
            yield key.endpoint
        case ForwardingKey(), Forwarding():
            yield key.network
            yield from value.endpoints
            for address in value.addresses:
                yield address_on(key.network, address)
