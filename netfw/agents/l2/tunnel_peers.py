"""Tunnels, flooding and forwarding to other hosts.  Pure.

Without population every peer has a meshed tunnel.  With population, tunnels follow from the ports
of other hosts: a tunnel exists while traffic can be sent through it.

A port on several hosts has the endpoints of all of them.  On a host that has such a port itself,
the entry is there without population too: the MAC would never be learned on the host of the active
router, and every frame for it would be flooded.

A host that is prepared for a port gets floods of its network, but no frames for its MAC address:
when the port is activated there, only the endpoint of its forwarding changes.  A network that
distributed routers connect to others floods to the hosts of those, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from netfw.agents.l2.address_pairs import AddressPairIndex, PairChange, addresses_within
from netfw.agents.l2.host_context import L2HostContext
from netfw.drivers.values.switch_values import (
    Endpoint,
    Flood,
    FloodKey,
    Forwarding,
    ForwardingKey,
    SwitchEntry,
    SwitchKey,
    Tunnel,
    endpoints_problem,
)
from netfw.model.agent import Agent
from netfw.model.port import Port
from netfw.model.segment import NetworkType
from netfw.model.values.address import IpAddress
from netfw.model.values.device_owner import DeviceOwner, is_distributed
from netfw.model.values.ids import AgentId, NetworkId, PortId

K = TypeVar("K")
V = TypeVar("V")
Put = Callable[[SwitchEntry], None]
Drop = Callable[[SwitchKey], None]
Joined = Callable[[NetworkId], Iterator[NetworkId]]
"""Yields a network, then the networks that distributed routers connect it to."""


def endpoints_of(agent: Agent, view: L2HostContext) -> frozenset[Endpoint]:
    """Return the endpoints of *agent* that this host can use; none for its own agent."""
    content = agent.configurations.content()
    address, names = agent.tunnel_address, content.get("tunnel_types")
    if address is None or not isinstance(names, list | tuple) or agent.host == view.host:
        return frozenset()
    usable = set()
    for own in view.facts.endpoints:
        is_usable = own.address != address and own.address.version == address.version
        if own.type in names and is_usable:
            usable.add(Endpoint(own.type, address))
    return frozenset(usable)


class TunnelPeers:
    """The desired tunnels, floods and forwardings, updated incrementally."""

    def __init__(self, view: L2HostContext, put: Put, drop: Drop, joined: Joined) -> None:
        self._view, self._put, self._drop, self._joined = view, put, drop, joined
        self._agents: dict[AgentId, Agent] = {}
        self._own: dict[AgentId, IpAddress] = {}
        self._offers: dict[Endpoint, set[AgentId]] = {}
        self._by_host: dict[str, dict[Endpoint, set[AgentId]]] = {}
        self._here: dict[NetworkId, NetworkType] = {}
        self._there: dict[NetworkId, dict[str, set[PortId]]] = {}
        self._networks_on: dict[str, set[NetworkId]] = {}
        self._ports: dict[PortId, Port] = {}
        self._macs: dict[ForwardingKey, set[PortId]] = {}
        self._floods: dict[NetworkId, dict[str, FloodKey]] = {}
        self._flooders: dict[FloodKey, set[str]] = {}
        self._users: dict[Endpoint, set[FloodKey]] = {}
        self._pairs = AddressPairIndex()
        self._owners: dict[NetworkId, dict[IpAddress, set[PortId]]] = {}

    def agent(self, id: AgentId, agent: Agent | None) -> None:
        """Update an agent; ``None``: it is gone."""
        former = self._agents.pop(id, None)
        self._own.pop(id, None)
        if agent is not None:
            self._agents[id] = agent
            address = agent.tunnel_address
            if agent.host == self._view.host and address is not None:
                self._own[id] = address
        before = frozenset[Endpoint]() if former is None else endpoints_of(former, self._view)
        after = frozenset[Endpoint]() if agent is None else endpoints_of(agent, self._view)
        if former is not None:
            for endpoint in before:
                discard_from(self._offers, endpoint, id)
                discard_from(self._by_host[former.host], endpoint, id)
            if not self._by_host.get(former.host, True):
                del self._by_host[former.host]
        if agent is not None:
            for endpoint in after:
                self._offers.setdefault(endpoint, set()).add(id)
                self._by_host.setdefault(agent.host, {}).setdefault(endpoint, set()).add(id)
        for endpoint in before | after:
            self._tunnel(endpoint)
        for host in {each.host for each in (former, agent) if each is not None}:
            self._host(host)

    def own_addresses(self) -> frozenset[IpAddress]:
        """Return the tunnel addresses of this host that the source advertises."""
        return frozenset(self._own.values())

    def port(self, id: PortId, port: Port | None) -> None:
        """Update a port of any host; ``None``: it is gone."""
        changes = self._pairs.update(id, port) if self._view.arp_responder else ()
        former = self._ports.pop(id, None)
        reachable = None if port is None else reachable_port(port, self._view)
        concerned = [each for each in (former, reachable) if each is not None]
        places = {(each.network_id, host) for each in concerned for host in self._flooded(each)}
        before = set(filter(self._has_ports, places))
        if former is not None:
            self._unlink(former)
        if reachable is not None:
            self._ports[id] = reachable
            self._link(reachable)
        for place in before ^ set(filter(self._has_ports, places)):
            self._flood_joined(*place)
        for each in concerned:
            self._forward(_key(each))
        for change in changes:
            self._forward_all(self._answered_ports(change))

    def network(self, id: NetworkId, type: NetworkType | None) -> None:
        """Update the tunnel type of a network on this host; ``None``: it is not tunnelled."""
        if self._here.get(id) == type:
            return
        if type is None:
            del self._here[id]
        else:
            self._here[id] = type
        self.update_floods(id)
        for ports in self._there.get(id, {}).values():
            self._forward_all(ports)

    def update_floods(self, network: NetworkId) -> None:
        """Update the floods of a network, which distributed routers connect to others."""
        hosts = set(self._floods.get(network, ()))
        if network in self._here:
            hosts.update(
                host for each in self._joined(network) for host in self._there.get(each, ())
            )
        for host in hosts:
            self._flood(network, host)

    def host_endpoints(self, host: str) -> frozenset[Endpoint]:
        """Return the endpoints of *host* that have a tunnel; of each type, the newest."""
        offers = self._by_host.get(host, {})
        newest = {
            end.type: end for end in sorted(offers, key=lambda end: self._newest(offers[end]))
        }
        return frozenset(filter(self._has_tunnel, newest.values()))

    def hosts_at(self, endpoint: Endpoint) -> frozenset[str]:
        """Return the hosts whose agents offer *endpoint*."""
        return frozenset(self._agents[id].host for id in self._offers.get(endpoint, ()))

    def _flooded(self, port: Port) -> frozenset[str]:
        """Return the other hosts that have the port, or are prepared for it."""
        return (port.binding.all_hosts | port.binding.prepared_hosts) - {self._view.host}

    def _has_ports(self, place: tuple[NetworkId, str]) -> bool:
        """Return whether a host has ports of a network, or is prepared for some."""
        network, host = place
        return host in self._there.get(network, ())

    def _hosts(self, port: Port) -> frozenset[str]:
        """Return the other hosts that have the port."""
        return port.binding.all_hosts - {self._view.host}

    def _link(self, port: Port) -> None:
        network = port.network_id
        for host in self._flooded(port):
            self._there.setdefault(network, {}).setdefault(host, set()).add(port.id)
            self._networks_on.setdefault(host, set()).add(network)
        # A replicated interface is on the host of the active router; without all of its hosts,
        # peers flood.
        replicated = port.device_owner == DeviceOwner.HA_ROUTER_REPLICATED_INTERFACE
        if port.binding.hosts or not replicated:
            self._macs.setdefault(_key(port), set()).add(port.id)
        if self._view.arp_responder:
            owners = self._owners.setdefault(network, {})
            for fixed in port.fixed_ips:
                owners.setdefault(fixed.address, set()).add(port.id)

    def _unlink(self, port: Port) -> None:
        network = port.network_id
        hosts = self._there[network]
        for host in self._flooded(port):
            discard_from(hosts, host, port.id)
            if host not in hosts:
                discard_from(self._networks_on, host, network)
        if not hosts:
            del self._there[network]
        discard_from(self._macs, _key(port), port.id)
        owners = self._owners.get(network, {})
        for fixed in port.fixed_ips:
            discard_from(owners, fixed.address, port.id)
        if not owners:
            self._owners.pop(network, None)

    def _host(self, host: str) -> None:
        for network in self._networks_on.get(host, ()):
            self._flood_joined(network, host)
            self._forward_all(self._there[network][host])

    def _endpoint(self, host: str, network: NetworkId) -> Endpoint | None:
        """Return the endpoint of *host* for *network*; of several, the newest."""
        type = self._here.get(network)
        offers = self._by_host.get(host, {})
        ends = [end for end in offers if end.type == type]
        return max(ends, key=lambda end: self._newest(offers[end]), default=None)

    def _newest(self, ids: Iterable[AgentId]) -> tuple[int, AgentId]:
        return max((self._agents[id].revision, id) for id in ids)

    def _flood_joined(self, network: NetworkId, host: str) -> None:
        """Update the floods to *host* of a network, and of those that routers connect it to."""
        for each in set(self._joined(network)):
            self._flood(each, host)

    def _flood(self, network: NetworkId, host: str) -> None:
        if not self._view.population:
            return
        endpoint = self._endpoint(host, network)
        if endpoint is not None and not self._is_flooded(network, host):
            endpoint = None
        wanted = None if endpoint is None else FloodKey(network, endpoint)
        floods = self._floods.setdefault(network, {})
        former = floods.pop(host, None)
        if wanted is not None:
            floods[host] = wanted
            self._flooders.setdefault(wanted, set()).add(host)
            self._users.setdefault(wanted.endpoint, set()).add(wanted)
        if former is not None and former != wanted:
            discard_from(self._flooders, former, host)
            if former not in self._flooders:
                discard_from(self._users, former.endpoint, former)
        for key in {former, wanted} - {None}:
            assert key is not None
            if key in self._flooders:
                self._put((key, Flood()))
            else:
                self._drop(key)
            self._tunnel(key.endpoint)
        if not floods:
            del self._floods[network]

    def _is_flooded(self, network: NetworkId, host: str) -> bool:
        """Return whether *host* has a port of a network, or of one that routers connect it to."""
        return any(self._has_ports((each, host)) for each in self._joined(network))

    def _forward_all(self, ports: Iterable[PortId]) -> None:
        for key in {_key(self._ports[id]) for id in ports}:
            self._forward(key)

    def _forward(self, key: ForwardingKey) -> None:
        for id in sorted(self._macs.get(key, ())):
            port = self._ports[id]
            found = (self._endpoint(host, key.network) for host in self._hosts(port))
            endpoints = frozenset(endpoint for endpoint in found if endpoint is not None)
            if endpoints_problem(endpoints) is None:
                self._put((key, Forwarding(endpoints, self._answered(port))))
                return
        self._drop(key)

    def _answered(self, port: Port) -> frozenset[IpAddress]:
        """Return the addresses of *port* that the ARP responder answers for.

        None of a port that is on this host too: the responder would answer its announcements, and
        no other host would receive them.
        """
        if not self._view.arp_responder or port.binding.is_on(self._view.host):
            return frozenset()
        return frozenset(
            fixed.address
            for fixed in port.fixed_ips
            if not self._pairs.has_other_user(port.network_id, fixed.address, port.id)
        )

    def _answered_ports(self, change: PairChange) -> Iterable[PortId]:
        """Return the ports of other hosts with addresses that *change* concerns."""
        if change.port is not None:
            return {change.port} & self._ports.keys()
        owners = self._owners.get(change.network, {})
        return {id for each in addresses_within(change.prefix, owners) for id in owners[each]}

    def _tunnel(self, endpoint: Endpoint) -> None:
        if not self._has_tunnel(endpoint):
            self._drop(endpoint)
            return
        host = self._agents[self._newest(self._offers[endpoint])[1]].host
        self._put((endpoint, Tunnel(host, mesh=not self._view.population)))

    def _has_tunnel(self, endpoint: Endpoint) -> bool:
        is_used = not self._view.population or endpoint in self._users
        return is_used and endpoint in self._offers


def reachable_port(port: Port, view: L2HostContext) -> Port | None:
    """Return *port* if another host has it, or is prepared for it, and the switch gets entries."""
    elsewhere = (port.binding.all_hosts | port.binding.prepared_hosts) - {view.host}
    if not elsewhere or not port.admin_up or is_distributed(port.device_owner):
        return None
    shared_here = view.forwarding and port.binding.is_on(view.host)
    return port if view.population or shared_here else None


def _key(port: Port) -> ForwardingKey:
    return ForwardingKey(port.network_id, port.mac)


def discard_from(index: dict[K, set[V]], key: K, value: V) -> None:
    """Remove *value* from the set under *key*; delete an empty set."""
    members = index.get(key)
    if members is not None:
        members.discard(value)
        if not members:
            del index[key]
