"""The desired flows of each bridge, in groups that change together.  Pure.

A group belongs to a key: one changed port costs its own group, one changed tunnel the groups that
use it.  A group is described by the values that its flows are made of; the flows are made only when
these differ from before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Set
from functools import partial

from attrs import define, field

from netfw import flows as of
from netfw.drivers.values.keys import ExtensionKey, HostKey, NetworkKey, PortKey
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.drivers.values.switch_values import (
    Endpoint,
    Forwarding,
    ForwardingKey,
    HostMac,
    LocalNetwork,
    RouterInterface,
    SwitchKey,
    SwitchValue,
    Tunnel,
    Wiring,
)
from netfw.errors import Conflict
from netfw.model.segment import NetworkType, Segment
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import NetworkId
from netfw.ovs.openflow.flow_cache import FlowGroup
from netfw_drivers.ovs.common.local_vlans import BroadcastDomain
from netfw_drivers.ovs.pipeline import br_int, br_phys, br_tun, distributed_routing
from netfw_drivers.ovs.pipeline.br_int import Chunk, PlannedPort
from netfw_drivers.ovs.pipeline.distributed_routing import RoutedSegment, plan_interfaces
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout
from netfw_drivers.ovs.switch.plan.ovsdb_changes import OvsdbChanges
from netfw_drivers.ovs.switch.plan.settings import Settings, tunnel_name
from netfw_drivers.ovs.switch.plan.state import DomainMembersOverlay, SwitchStateOverlay

SWITCH = "switch"
BASE = "base"
ADDED = "added"
ROUTER = "router"

Owner = tuple[object, ...]
"""Owner of flows: `SWITCH`, then a key or `BASE`, then a part of its flows."""
Flows = Callable[[], Iterable[of.Flow]]


def owner_of(key: object, *part: object) -> Owner:
    return SWITCH, key, *part


def router_owners(key: NetworkKey, value: SwitchValue | None) -> dict[RouterInterface, Owner]:
    """Return the owners of the flows of the router interfaces of a network."""
    if not isinstance(value, LocalNetwork):
        return {}
    return {one: owner_of(key, ROUTER, one.port) for one in value.router_interfaces}


@define
class FlowGroupChanges:
    """Groups of flows to put and owners to drop, by bridge."""

    put: dict[str, dict[Hashable, FlowGroup]] = field(factory=dict)
    drop: dict[str, set[Hashable]] = field(factory=dict)

    def set(self, bridge: str, owner: Owner, source: object, make: Flows) -> None:
        self.put.setdefault(bridge, {})[owner] = FlowGroup(source, make)

    def unset(self, bridge: str, owner: Owner) -> None:
        self.drop.setdefault(bridge, set()).add(owner)


class FlowGroupBuilder:
    """Builds the groups from the desired state, local VLANs and port numbers."""

    def __init__(
        self,
        draft: OvsdbChanges,
        settings: Settings,
        wanted: SwitchStateOverlay,
        numbers: dict[BroadcastDomain, int],
    ) -> None:
        self._draft, self._settings, self._wanted = draft, settings, wanted
        self._numbers = numbers
        self.groups = FlowGroupChanges()

    def base(self, layout: ExtensionLayout) -> None:
        """Set the flows that exist before any port."""
        settings, groups = self._settings, self.groups
        groups.put.update({name: {} for name in settings.created_bridges})
        link = settings.tunnel_link
        inward = self._draft.number(link.near.name) if settings.has_tunnels else None
        groups.set(
            settings.integration,
            owner_of(BASE),
            (inward, layout),
            partial(br_int.base_flows, inward, layout),
        )
        for owner, grant in layout.grants.items():
            contribution = self._wanted.get(ExtensionKey(owner), SwitchContribution)
            groups.set(
                settings.integration,
                owner_of(ExtensionKey(owner)),
                (grant, contribution),
                partial(br_int.extension_flows, grant, contribution),
            )
        outward = self._draft.number(link.far.name) if settings.has_tunnels else None
        if outward is not None:
            make = partial(br_tun.base_flows, outward, responder=settings.responder)
            groups.set(settings.tunnel, owner_of(BASE), (outward, settings.responder), make)
        for bridge in settings.mappings.values():
            number = self._draft.number(settings.physical_link(bridge).far.name)
            if number is not None:
                groups.set(bridge, owner_of(BASE), number, partial(br_phys.base_flows, number))

    def port(self, key: PortKey, port: PlannedPort | None, layout: ExtensionLayout) -> None:
        """Set the flows of a live port, and those that extensions add before it is live."""
        bridge, groups = self._settings.integration, self.groups
        wiring = self._wanted.get(key, Wiring) if port is not None else None
        contributions = wiring.contributions if wiring is not None else ()
        if port is not None and contributions:
            added = contributions, port.vlan
            make = partial(br_int.contribution_flows, *added)
            groups.set(bridge, owner_of(key, ADDED), added, make)
        else:
            groups.unset(bridge, owner_of(key, ADDED))
        if port is None or not port.live:
            groups.unset(bridge, owner_of(key))
            return
        source = port, layout
        groups.set(bridge, owner_of(key), source, partial(br_int.port_flows, *source))
        for segment in self._segments(port.domain.network):
            if segment.id == port.domain.segment:
                self._wait_for_bridge(key, segment)

    def members(
        self, membership: DomainMembersOverlay, chunks: Set[Chunk], layout: ExtensionLayout
    ) -> None:
        """Set the flows that deliver packets to the ports of *chunks*."""
        bridge, groups = self._settings.integration, self.groups
        for chunk in chunks:
            domain, number = chunk
            owner = owner_of(NetworkKey(domain.network), domain.segment, number)
            ports, vlan = membership.receivers(chunk), self._numbers.get(domain)
            if ports and vlan is not None:
                make = partial(br_int.chunk_flows, vlan, number, ports, layout)
                groups.set(bridge, owner, (vlan, ports, layout), make)
            else:
                groups.unset(bridge, owner)
        for domain in {domain for domain, _ in chunks}:
            self._domain(domain, membership, layout)

    def _domain(
        self, domain: BroadcastDomain, membership: DomainMembersOverlay, layout: ExtensionLayout
    ) -> None:
        owner = owner_of(NetworkKey(domain.network), domain.segment)
        chunks, vlan = membership.chunks(domain), self._numbers.get(domain)
        if not chunks or vlan is None:
            self.groups.unset(self._settings.integration, owner)
            return
        source = vlan, chunks, membership.open_ports(domain), self._uplink(domain), layout
        make = partial(br_int.domain_flows, *source)
        self.groups.set(self._settings.integration, owner, source, make)

    def _uplink(self, domain: BroadcastDomain) -> int | None:
        """Return the number of the patch port that leads to the other hosts of *domain*."""
        for segment in self._segments(domain.network):
            if segment.id == domain.segment:
                kind, physical = segment.provider.network_type, segment.provider.physical_network
                if kind.is_tunnel:
                    return self._draft.number(self._settings.tunnel_link.near.name)
                if physical is not None:
                    link = self._settings.physical_link(self._settings.mappings[physical])
                    return self._draft.number(link.near.name)
        return None

    def network(self, key: NetworkKey) -> None:
        """Set the flows of a network on every bridge; none where it is not carried."""
        network = self._wanted.network(key.network)
        for segment in self._segments(key.network):
            self._wait_for_bridge(key, segment)
            blocked = self._draft.blocked.get(self._far_bridge(segment) or "")
            if blocked:
                self._draft.refused[key] = Conflict(blocked)
        made: dict[str, list[tuple[object, Flows]]] = {name: [] for name in self._settings.bridges}
        if network is not None:
            for bridge, source, make in self._parts(key, network):
                made[bridge].append((source, make))
        for bridge, parts in made.items():
            if parts:
                sources = tuple(source for source, _ in parts)
                self.groups.set(
                    bridge, owner_of(key), sources, partial(_joined, [make for _, make in parts])
                )
            else:
                self.groups.unset(bridge, owner_of(key))

    def routers(self, key: NetworkKey) -> None:
        """Set the flows of the distributed routers of a network; one group for each."""
        network, host = self._wanted.network(key.network), self._wanted.own_mac()
        bridge, owners = self._settings.integration, router_owners(key, network)
        for owner in {*router_owners(key, self._wanted.before(key)).values()} - {*owners.values()}:
            self.groups.unset(bridge, owner)
        if owners and host is None:
            self._draft.waiting[key] = "this host has no MAC address for its distributed routers"
        segments = tuple(self._routed_segments(key.network))
        for planned in plan_interfaces(frozenset(owners)):
            source = segments, planned, host
            make = partial(distributed_routing.interface_flows, *source)
            self.groups.set(bridge, owners[planned.interface], source, make)

    def _routed_segments(self, network: NetworkId) -> Iterator[RoutedSegment]:
        """Yield the segments of a network that lead to other hosts."""
        for segment in self._segments(network):
            domain = BroadcastDomain(network, segment.id)
            vlan, uplink = self._numbers.get(domain), self._uplink(domain)
            if vlan is not None and uplink is not None:
                yield RoutedSegment(vlan, uplink, segment.provider.network_type.is_tunnel)

    def host(self, key: HostKey) -> None:
        """Set the flows of a host with distributed routers."""
        host, settings = self._wanted.get(key, HostMac), self._settings
        if host is None:
            for bridge in settings.created_bridges:
                self.groups.unset(bridge, owner_of(key))
            return
        found = (self._draft.number(link.near.name) for link in settings.bridge_links())
        links = tuple(number for number in found if number is not None)
        make = partial(distributed_routing.host_flows, host.mac, links, own=host.own)
        self.groups.set(settings.integration, owner_of(key), (host.mac, links, host.own), make)
        if settings.has_tunnels:
            self._host_tunnels(key, host)

    def _host_tunnels(self, key: HostKey, host: HostMac) -> None:
        tunnels: list[tuple[NetworkType, int]] = []
        for endpoint in sorted(host.endpoints, key=str):
            number = self._tunnel_number(endpoint)
            if number is not None:
                tunnels.append((endpoint.type, number))
            elif endpoint.type in self._settings.tunnel_types:
                self._draft.waiting[key] = f"there is no tunnel to {endpoint} yet"
        source = host.mac, tuple(tunnels)
        make = partial(br_tun.host_flows, *source)
        self.groups.set(self._settings.tunnel, owner_of(key), source, make)

    def _wait_for_bridge(self, key: SwitchKey, segment: Segment) -> None:
        """Record that *key* is cut off from other hosts while the physical bridge is missing."""
        bridge, physical = self._far_bridge(segment), segment.provider.physical_network
        if (
            bridge in self._settings.mappings.values()
            and bridge not in self._draft.snapshot.bridges
        ):
            self._draft.waiting[key] = (
                f"there is no bridge {bridge} for {physical}: make it (ovs-vsctl add-br {bridge})"
            )

    def _far_bridge(self, segment: Segment) -> str | None:
        """Return the bridge that leads to the other hosts of *segment*."""
        if segment.provider.network_type.is_tunnel:
            return self._settings.tunnel
        return self._settings.mappings.get(segment.provider.physical_network or "")

    def _segments(self, network: NetworkId) -> tuple[Segment, ...]:
        held = self._wanted.network(network)
        return () if held is None else held.segments

    def tunnel(self, key: Endpoint) -> None:
        tunnel = self._wanted.get(key, Tunnel)
        number = self._draft.number(tunnel_name(key))
        if tunnel is None or number is None or key in self._draft.refused:
            self.groups.unset(self._settings.tunnel, owner_of(key))
            if tunnel is not None and key not in self._draft.refused:
                self._draft.waiting[key] = "the switch has not numbered the tunnel yet"
            return
        make = partial(br_tun.tunnel_flows, number, key.type, learns=tunnel.mesh)
        self.groups.set(self._settings.tunnel, owner_of(key), (number, tunnel.mesh), make)

    def flood(self, key: SwitchKey, network: NetworkId, endpoint: Endpoint) -> None:
        """Record what a flood or forwarding entry waits for; its flow is the network's."""
        why = self._missing(network, endpoint)
        if why:
            self._draft.waiting[key] = why

    def forwarding(self, key: ForwardingKey) -> None:
        bridge = self._settings.tunnel
        entry = self._wanted.get(key, Forwarding)
        if entry is None:
            self.groups.unset(bridge, owner_of(key))
            return
        endpoints = sorted(entry.endpoints, key=str)
        for endpoint in endpoints:
            self.flood(key, key.network, endpoint)
        segment = self._segment(key.network, endpoints[0].type)
        found = map(self._tunnel_number, endpoints)
        tunnels = tuple(number for number in found if number is not None)
        if segment is None or not tunnels:
            self.groups.unset(bridge, owner_of(key))
            return
        vlan, number = self._numbers[BroadcastDomain(key.network, segment.id)], segment.provider
        addresses = self._answered(key, entry) if self._settings.responder else ()
        source = vlan, number.segmentation_id or 0, key.mac, tunnels, addresses
        self.groups.set(bridge, owner_of(key), source, partial(br_tun.forwarding_flows, *source))

    def _answered(self, key: ForwardingKey, entry: Forwarding) -> tuple[IpAddress, ...]:
        """Return the addresses to answer for with this MAC; other entries may have them too."""
        own = (address for address in entry.addresses if self._wanted.is_answered_for(key, address))
        return tuple(sorted(own, key=str))

    def _parts(self, key: NetworkKey, network: LocalNetwork) -> Iterator[tuple[str, object, Flows]]:
        """Yield bridge, source and maker of the flows of each segment."""
        for segment in network.segments:
            vlan = self._numbers.get(BroadcastDomain(key.network, segment.id))
            if vlan is None:
                continue
            if segment.provider.network_type.is_tunnel:
                yield self._tunnelled(key.network, segment, vlan)
            elif segment.provider.physical_network is not None:
                yield from self._physical(segment, vlan, routed=bool(network.router_interfaces))
        for contribution in network.contributions:
            yield self._settings.integration, contribution, partial(list, contribution.flows)

    def _tunnelled(
        self, network: NetworkId, segment: Segment, vlan: int
    ) -> tuple[str, object, Flows]:
        kind, number = segment.provider.network_type, segment.provider.segmentation_id or 0
        peers = {*self._wanted.mesh(kind), *self._wanted.floods(network)}
        found = (self._tunnel_number(peer) for peer in peers if peer.type == kind)
        outputs = tuple(sorted(port for port in found if port is not None))
        make = partial(br_tun.network_flows, vlan, kind, number, outputs)
        return self._settings.tunnel, (vlan, kind, number, outputs), make

    def _physical(
        self, segment: Segment, vlan: int, *, routed: bool
    ) -> Iterator[tuple[str, object, Flows]]:
        provider = segment.provider
        bridge = self._settings.mappings[provider.physical_network or ""]
        link = self._settings.physical_link(bridge)
        near, far = self._draft.number(link.near.name), self._draft.number(link.far.name)
        if near is None or far is None:
            return
        inward = partial(br_int.network_flows, vlan, provider, near, routed=routed)
        yield self._settings.integration, (vlan, provider, near, routed), inward
        outward = partial(br_phys.network_flows, vlan, provider, far)
        yield bridge, (vlan, provider, far), outward

    def _missing(self, network: NetworkId, endpoint: Endpoint) -> str:
        if self._wanted.network(network) is None:
            return f"network {network} is not on this host yet"
        if self._segment(network, endpoint.type) is None:
            return f"network {network} is not carried by {endpoint.type} here"
        if self._tunnel_number(endpoint) is None:
            return f"there is no tunnel to {endpoint} yet"
        return ""

    def _segment(self, network: NetworkId, kind: NetworkType) -> Segment | None:
        for segment in self._segments(network):
            known = BroadcastDomain(network, segment.id) in self._numbers
            if segment.provider.network_type == kind and known:
                return segment
        return None

    def _tunnel_number(self, endpoint: Endpoint) -> int | None:
        if self._wanted.get(endpoint, Tunnel) is None or endpoint in self._draft.refused:
            return None
        return self._draft.number(tunnel_name(endpoint))


def _joined(makers: Iterable[Flows]) -> Iterator[of.Flow]:
    for make in makers:
        yield from make()
