"""The desired state of the switch of this host.  Pure: values in, values out.

It is updated incrementally: a changed port costs that port, a network its ports on this host, an
agent the networks that its host shares with this one, an interface of a distributed router the
networks of the router.  The result does not depend on the order of changes: it equals the state
computed from all resources at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Final, cast

from netfw.agents.common.changed_values import ChangedValues
from netfw.agents.common.resource_index import ResourceChange
from netfw.agents.l2.distributed_routers import (
    DistributedRouters,
    is_interface,
    make_router_interfaces,
)
from netfw.agents.l2.host_context import L2HostContext
from netfw.agents.l2.host_macs import DesiredHostMacs
from netfw.agents.l2.mixed_filtering import MixedNetworks
from netfw.agents.l2.port_references import PortReferences
from netfw.agents.l2.port_wiring import (
    WiringDecision,
    as_sub_port,
    decide_wiring,
    filtered_outside,
    is_plugged,
    make_subport,
    needed_network,
)
from netfw.agents.l2.resource_index import L2ResourceIndex
from netfw.agents.l2.tunnel_peers import TunnelPeers
from netfw.drivers.l2_extension import ExtendedPort
from netfw.drivers.support.port_filtering import is_unfiltered
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.drivers.values.switch_values import (
    Admission,
    Endpoint,
    LocalNetwork,
    RouterInterface,
    Subport,
    SwitchDevice,
    SwitchEntry,
    SwitchKey,
    SwitchValue,
)
from netfw.model.agent import Agent
from netfw.model.network import Network
from netfw.model.packet_log import PacketLog
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, Resource
from netfw.model.security_group import SecurityGroupRule
from netfw.model.segment import Segment
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress, Mac
from netfw.model.values.device_owner import is_distributed_dhcp
from netfw.model.values.ids import AgentId, NetworkId, PortId

NOT_DISTRIBUTED: Final = (
    "it is an interface of a distributed router, and this host takes no part in distributed "
    "routing: set enable_distributed_routing = true in [agent] of its L2 agent"
)


class DesiredSwitch:
    """The desired state of one switch, computed from the resources in *index*.

    A port that is not on this host by the source has no value: the switch keeps it dead.
    """

    def __init__(self, view: L2HostContext, index: L2ResourceIndex) -> None:
        self.view = view
        self._index = index
        self._values: ChangedValues[SwitchKey, SwitchValue] = ChangedValues()
        self._devices: dict[PortId, SwitchDevice] = {}
        self._reachable: dict[NetworkId, tuple[Segment, ...]] = {}
        self._decisions: dict[PortId, WiringDecision] = {}
        self._wired: dict[NetworkId, set[PortId]] = {}
        self._references = PortReferences()
        self._touched: set[PortId] = set()
        self._unbound: set[PortId] = set()
        self._untrusted: set[PortId] = set()
        self._mixed = MixedNetworks()
        self._routers = DistributedRouters(view.host)
        self._peers = TunnelPeers(view, self._put, self._drop, self._joined)
        self._macs = DesiredHostMacs(view.host, self._peers.host_endpoints, self._put, self._drop)

    @property
    def values(self) -> Mapping[SwitchKey, SwitchValue]:
        """Every desired value of the switch."""
        return self._values

    def decision(self, port: PortId) -> WiringDecision | None:
        """Return the wiring of a port; ``None``: it is not plugged, or not on this host."""
        return self._decisions.get(port)

    def port(self, id: PortId) -> Port | None:
        """Return the port, if it is on this host: bound to it, or plugged and expected here."""
        port = self._index.home_port(id)
        if port is not None:
            return port
        port = self._index.visiting_port(id)
        plugged = port is not None and self._is_expected(port) and is_plugged(port, self._devices)
        return port if plugged else None

    def reported_port(self, id: PortId) -> Port | None:
        """Return the port, if this host reports its status: others do for prepared ones."""
        port = self._index.home_port(id) or self._index.visiting_port(id)
        return None if port is None or self._index.is_prepared(port) else port

    def prepared_port(self, id: PortId) -> Port | None:
        """Return the port, if this host is prepared for it, and has a device of it."""
        port = self._index.visiting_port(id)
        is_ready = port is not None and self._index.is_prepared(port) and id in self._devices
        return port if port is not None and is_ready and self.reaches(port.network_id) else None

    def reaches(self, network: NetworkId) -> bool:
        """Return whether a segment of a network reaches this host."""
        return any(map(self.view.reaches, self._reachable_segments(network)))

    def ports(self) -> frozenset[PortId]:
        """Return every port that is on this host, plugged or not."""
        return frozenset((*self._index.all_home_ports(), *self._decisions))

    def device(self, port: PortId) -> SwitchDevice | None:
        """Return the device of a port, if it is plugged."""
        return self._devices.get(port)

    def subport(self, id: PortId) -> Subport | None:
        """Return the parent and the tag of a port of this host; ``None``: it is no sub-port."""
        port = self.port(id)
        return None if port is None else make_subport(port)

    @property
    def devices(self) -> Mapping[PortId, SwitchDevice]:
        """All plugged devices by port, whether the source knows the port or not."""
        return self._devices

    @property
    def unbound(self) -> Set[PortId]:
        """The plugged ports that are not on this host by the source."""
        return self._unbound

    @property
    def untrusted(self) -> Set[PortId]:
        """The plugged ports that need filters."""
        return self._untrusted

    @property
    def mixed_networks(self) -> Set[NetworkId]:
        """The networks with filtered ports of one project and unfiltered ones of another."""
        return self._mixed.networks

    @property
    def advertised_addresses(self) -> frozenset[IpAddress]:
        """The tunnel addresses of this host that the source advertises."""
        return self._peers.own_addresses()

    @property
    def host_mac(self) -> Mac | None:
        """The MAC address of this host for distributed routing; ``None``: it has none."""
        return self._macs.own if self.view.distributed else None

    def set_host_mac(self, mac: Mac) -> None:
        """Set the MAC address of this host, which it takes part in distributed routing with."""
        former = self.host_mac
        self._macs.set_own(mac)
        if former is None:
            self._update_routing()

    def wired(self, network: NetworkId) -> frozenset[PortId]:
        """Return the ports of this host that need the network."""
        return frozenset(self._wired.get(network, ()))

    def extended(self, id: PortId) -> ExtendedPort | None:
        """Return a port as extensions see it; ``None``: it is dead, gone, or not on this host."""
        decision, port, device = self._decisions.get(id), self.port(id), self.device(id)
        if decision is None or port is None or device is None:
            return None
        network = self._index.network(port.network_id)
        if network is None or decision.wiring.admission is Admission.DEAD:
            return None
        related, local_ips = self._index.related(port), self._index.local_ips(port)
        return ExtendedPort(
            port=port, network=network, device=device, related=related, local_ips=local_ips
        )

    def take_changed(self) -> frozenset[SwitchKey]:
        """Return the keys whose values changed since the last call."""
        return self._values.take_changed()

    def take_touched(self) -> frozenset[PortId]:
        """Return the ports that changed since the last call, in their wiring or otherwise."""
        touched, self._touched = frozenset(self._touched), set()
        return touched

    def apply(self, changes: Iterable[ResourceChange]) -> None:
        """Update the values after *changes*, which the index already holds."""
        ports: set[PortId] = set()
        networks: set[NetworkId] = set()
        routed: set[NetworkId] = set()
        was_routing = self.host_mac is not None
        for change in changes:
            ports |= self._references.ports_of(change.key)
            for resource in (change.before, change.after):
                if resource is not None:
                    self._concerned(resource, ports, networks)
            routed |= self._update_peers(change)
        for network in networks:
            self._reachable.pop(network, None)
            ports |= self._index.home_ports(network) | self._index.visiting_ports(network)
        for port in ports:
            self._update_port(port)
        for network in networks | routed:
            self._update_network(network)
        for network in routed:
            self._peers.update_floods(network)
        if was_routing is not (self.host_mac is not None):
            self._update_routing()

    def plug(self, id: PortId, device: SwitchDevice | None) -> None:
        """Set the device that is plugged for a port; ``None``: there is none."""
        if self._devices.get(id) == device:
            return
        if device is None:
            del self._devices[id]
        else:
            self._devices[id] = device
        for port in (id, *sorted(self._index.sub_ports(id))):
            self._update_port(port)

    def _concerned(self, resource: Resource, ports: set[PortId], networks: set[NetworkId]) -> None:
        match resource:
            case Port():
                ports |= {resource.id, *self._index.local_ip_rivals(resource)}
                if is_distributed_dhcp(resource.device_owner, resource.device_id):
                    networks.add(resource.network_id)  # each of its ports refers to this one
            case Network():
                networks.add(resource.id)
            case Segment() | Subnet():
                networks.add(resource.network_id)
            case PacketLog():
                here = self._decisions.keys()
                ports.update(self._references.logged_ports(resource, here, self.port))
            case SecurityGroupRule() if self._index.is_logging():
                ports.update(self._references.ports_of_group(resource.security_group_id))

    def _update_peers(self, change: ResourceChange) -> set[NetworkId]:
        """Update other hosts and routers; return the networks that this may concern."""
        key = change.key
        if key.kind is Kind.AGENT:
            agent = cast(Agent | None, change.after)
            self._peers.agent(AgentId(key.id), agent)
            if self.view.distributed:
                self._macs.agent(AgentId(key.id), agent)
        if key.kind is not Kind.PORT:
            return set()
        ports = cast(tuple[Port | None, Port | None], (change.before, change.after))
        self._peers.port(PortId(key.id), ports[1])
        concerned = {
            port.network_id for port in ports if port is not None and self._index.is_prepared(port)
        }
        if self.view.distributed:
            concerned |= self._routers.update(PortId(key.id), ports[1])
        return concerned

    def _update_routing(self) -> None:
        """Update what depends on whether this host takes part in distributed routing."""
        for network in self._routers.networks():
            for port in self._index.visiting_ports(network):
                if port in self._devices:
                    self._update_port(port)
            self._update_network(network)
        for network in self._routers.networks():
            self._peers.update_floods(network)

    def _joined(self, network: NetworkId) -> Iterator[NetworkId]:
        if self.host_mac is None:
            return iter((network,))
        return self._routers.joined(network)

    def _is_expected(self, port: Port) -> bool:
        """Return whether a port may be plugged on this host without being bound to it."""
        return self._index.is_prepared(port) or is_interface(port)

    def _update_port(self, id: PortId) -> None:
        self._touched.add(id)
        former, decision = self._decisions.pop(id, None), self._decide(id)
        if decision is None:
            self._drop(PortKey(id))
        else:
            self._decisions[id] = decision
            self._put((PortKey(id), decision.wiring))
        device = self.device(id)
        unbound = decision is None and device is not None and not device.ancillary
        (self._unbound.add if unbound else self._unbound.discard)(id)
        port = None if decision is None else self.port(id)
        self._mixed.update(id, port)
        untrusted = port is not None and not is_unfiltered(port)
        (self._untrusted.add if untrusted else self._untrusted.discard)(id)
        self._update_references(id)
        before, after = needed_network(former), needed_network(decision)
        if before == after:
            return
        if after is not None:
            self._wired.setdefault(after, set()).add(id)
            self._update_network(after)
        if before is not None:
            self._wired[before].discard(id)
            if not self._wired[before]:
                del self._wired[before]
            self._update_network(before)

    def _decide(self, id: PortId) -> WiringDecision | None:
        port, subport = self.port(id), self.subport(id)
        device = self.device(id if subport is None else subport.parent)
        if port is None or device is None or device.ancillary:
            return None
        made = self._decide_wiring(port)
        if subport is None:
            return filtered_outside(made) if self.view.filters_outside(device) else made
        is_expected = id not in self._devices
        return as_sub_port(made, subport, is_expected, self._index.is_prepared(port))

    def _decide_wiring(self, port: Port) -> WiringDecision:
        network = self._index.network(port.network_id)
        segments = self._reachable_segments(port.network_id)
        if network is not None and not segments:
            segments = self._index.segments(network)  # for the reason
        return decide_wiring(
            port,
            network,
            segments,
            self._index.subnets(port.network_id),
            self.view,
            excluded=self._exclusion(port),
            problem=NOT_DISTRIBUTED if is_interface(port) and not self.view.distributed else "",
        )

    def _exclusion(self, port: Port) -> str:
        """Return why a port that is plugged here is dead on this host, whatever its own state."""
        if self._index.is_prepared(port):
            return "it is prepared on this host, but not activated here"
        if is_interface(port) and self.view.distributed and self.host_mac is None:
            return "this host has no MAC address for distributed routing yet"
        return ""

    def _reachable_segments(self, id: NetworkId) -> tuple[Segment, ...]:
        """Return the segments of a network that this host can take part in."""
        network = self._index.network(id)
        if network is None:
            return ()
        if id not in self._reachable:
            segments = self._index.segments(network)
            self._reachable[id] = tuple(filter(self.view.reaches, segments))
        return self._reachable[id]

    def _update_references(self, id: PortId) -> None:
        port = self.port(id) if id in self._decisions else None
        refs = frozenset[Ref]() if port is None else self._index.related_refs(port)
        self._references.update(id, refs)

    def _update_network(self, id: NetworkId) -> None:
        network, segments = self._index.network(id), self._reachable_segments(id)
        if network is None or not (id in self._wired or (segments and self._is_expecting(network))):
            self._drop(NetworkKey(id))
            self._peers.network(id, None)
            return
        interfaces = frozenset[RouterInterface]()
        if self.host_mac is not None:
            interfaces = make_router_interfaces(
                self._routers.interfaces(id), self._index.subnets(id)
            )
        value = LocalNetwork(segments=segments, mtu=network.mtu, router_interfaces=interfaces)
        self._put((NetworkKey(id), value))
        types = (segment.provider.network_type for segment in segments)
        self._peers.network(id, next((type for type in types if self.view.own(type)), None))

    def _is_expecting(self, network: Network) -> bool:
        """Return whether this host needs a network before a port of it is plugged."""
        is_routed = self.host_mac is not None and self._routers.needs(network.id)
        return network.admin_up and (is_routed or self._index.has_prepared_ports(network.id))

    def _put(self, entry: SwitchEntry) -> None:
        key, value = entry
        self._set(key, value)

    def _drop(self, key: SwitchKey) -> None:
        self._set(key, None)

    def _set(self, key: SwitchKey, value: SwitchValue | None) -> None:
        is_new = (value is None) is (key in self._values)
        self._values.set(key, value)
        if is_new and isinstance(key, Endpoint) and self.view.distributed:
            for host in self._peers.hosts_at(key):
                self._macs.update(host)
