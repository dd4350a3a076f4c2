"""Which resources an agent depends on: rules, as edges of a graph.

Every resource contributes edges, computed from that resource alone.  An agent's subscription is a
set of roots; the agent receives what can be reached from them.  A resource can be reached in
several *roles*: a port that is bound to a host brings its network and its groups with it, a port
that is only a member of a group brings nothing.  Roles keep the graph free of cycles::

    Root(L2)  -> port HOME    -> network SEEN -> subnets, segments, QoS policy,
                                                 distributed router interfaces
                              -> group SEEN   -> rules -> group MEMBERS -> ports SEEN
                                                       -> address group
                              -> QoS policy, trunk -> its ports SEEN
    Root(POPULATION) -> network PEERS -> ports SEEN
    Root(DHCP) -> network SERVED -> subnets, ports SERVED
    Root(L3)  -> subnet ROUTED -> distributed router HOME
              -> router HOME  -> port ROUTER_PORT -> network SEEN, subnet AROUND -> ports SEEN
                              -> floating IP HOME -> port SEEN, QoS policy
                              -> floating IP FORWARDING -> port forwardings

A port on several hosts (an interface of a highly available router) is HOME on each of them.

This module is stateless: a store with rows follows the same edges by queries.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, assert_never
from uuid import UUID

from attrs import frozen

from netfw.drivers.values.subscription import Service, Subscription
from netfw.model.agent import Agent
from netfw.model.device_owner import is_distributed, is_router_port
from netfw.model.floating_ip import FloatingIp, PortForwarding
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.qos import QosPolicy
from netfw.model.resource import Kind, Ref, Resource, ref
from netfw.model.router import Router
from netfw.model.security_group import AddressGroup, SecurityGroup, SecurityGroupRule
from netfw.model.segment import Segment
from netfw.model.subnet import Subnet
from netfw.model.trunk import Trunk

EVERYWHERE: Final = ""
"""The host of roots that every agent of a service shares."""


class Role(enum.StrEnum):
    """The role in which a resource is reached."""

    HOME = "home"
    """This host implements it, and reports its status."""
    SERVED = "served"
    """This host serves it DHCP, and reports its status."""
    ROUTER_PORT = "router_port"
    """A port of a router on this host."""
    SEEN = "seen"
    """This host reads it."""
    MEMBERS = "members"
    PEERS = "peers"
    ROUTED = "routed"
    AROUND = "around"
    FORWARDING = "forwarding"
    """A floating IP of a router on this host that forwards ports instead of standing for one
    port."""


DELIVERED: Final = frozenset({Role.HOME, Role.SERVED, Role.ROUTER_PORT, Role.SEEN})
"""Roles in which a resource is delivered; the others only lead to other resources."""
REPORTED: Final = frozenset({Role.HOME, Role.SERVED})


@frozen
class AgentRoot:
    """The root of the graph for one service of one host."""

    service: Service
    host: str


@frozen(cache_hash=True)
class ResourceRole:
    """A resource in one role: a node of the graph."""

    ref: Ref
    role: Role


@frozen
class Assignment:
    """A network or router that is scheduled to a service of a host."""

    service: Service
    host: str
    ref: Ref


Source = AgentRoot | ResourceRole
Edge = tuple[Source, ResourceRole]
Item = Resource | Assignment
"""Everything that contributes edges."""


def roots(subscription: Subscription) -> frozenset[AgentRoot]:
    """Return the roots of *subscription*."""
    return frozenset(
        AgentRoot(service, host)
        for service in subscription.services
        for host in (subscription.host, EVERYWHERE)
    )


def reachable(items: Iterable[Item], subscription: Subscription) -> Mapping[Ref, Resource]:
    """Return all resources of *subscription*, from scratch: the reference for all sources."""
    resources: dict[Ref, Resource] = {}
    out: dict[Source, list[ResourceRole]] = {}
    for item in items:
        if not isinstance(item, Assignment):
            resources[ref(item)] = item
        for source, node in edges(item):
            out.setdefault(source, []).append(node)
    queue: deque[Source] = deque(roots(subscription))
    reached: set[ResourceRole] = set()
    while queue:
        new = [node for node in out.get(queue.popleft(), ()) if node not in reached]
        reached.update(new)
        queue.extend(new)
    delivered = {node.ref for node in reached if node.role in DELIVERED}
    return {key: resource for key, resource in resources.items() if key in delivered}


def edges(item: Item) -> frozenset[Edge]:
    """Return the edges that *item* contributes."""
    return frozenset(each_edge(item))


def each_edge(item: Item) -> Iterator[Edge]:
    """Yield the edges that *item* contributes; an edge may come twice."""
    if isinstance(item, Assignment):
        role = Role.SERVED if item.service is Service.DHCP else Role.HOME
        return iter(((AgentRoot(item.service, item.host), ResourceRole(item.ref, role)),))
    return _edges(item)


def _edges(item: Resource) -> Iterator[Edge]:
    match item:
        case Port():
            yield from _port_edges(item)
        case Network():
            yield from _policies(ResourceRole(ref(item), Role.SEEN), item.qos_policy_id)
        case Segment() | Subnet():
            network = Ref(Kind.NETWORK, item.network_id)
            yield ResourceRole(network, Role.SEEN), ResourceRole(ref(item), Role.SEEN)
            yield ResourceRole(network, Role.SERVED), ResourceRole(ref(item), Role.SEEN)
        case Trunk():
            yield from _trunk_edges(item)
        case SecurityGroupRule():
            yield from _rule_edges(item)
        case Router():
            gateway = item.gateway
            policy = None if gateway is None else gateway.qos_policy_id
            yield from _policies(ResourceRole(ref(item), Role.HOME), policy)
        case FloatingIp():
            yield from _floating_ip_edges(item)
        case PortForwarding():
            floating = Ref(Kind.FLOATING_IP, item.floating_ip_id)
            yield ResourceRole(floating, Role.FORWARDING), ResourceRole(ref(item), Role.SEEN)
        case Agent():
            if item.configurations.content().get("tunneling_ip"):
                yield AgentRoot(Service.L2, EVERYWHERE), ResourceRole(ref(item), Role.SEEN)
        case SecurityGroup() | AddressGroup() | QosPolicy():
            pass  # only the target of references
        case _:
            assert_never(item)


def _port_edges(port: Port) -> Iterator[Edge]:
    network, itself = Ref(Kind.NETWORK, port.network_id), ref(port)
    home, seen = ResourceRole(itself, Role.HOME), ResourceRole(itself, Role.SEEN)
    yield home, ResourceRole(network, Role.SEEN)
    yield from _policies(home, port.qos_policy_id, port.qos_network_policy_id)
    for group in (Ref(Kind.SECURITY_GROUP, id) for id in port.security_groups):
        yield home, ResourceRole(group, Role.SEEN)
        yield ResourceRole(group, Role.MEMBERS), seen
    yield ResourceRole(network, Role.SERVED), ResourceRole(itself, Role.SERVED)
    for subnet in _subnets(port):
        yield ResourceRole(subnet, Role.AROUND), seen
    if is_router_port(port.device_owner):
        yield from _router_port_edges(port)
    for host in port.binding.all_hosts:
        yield AgentRoot(Service.L2, host), home
        yield from _bound_edges(port, host, ResourceRole(network, Role.PEERS))
    if port.binding.all_hosts:
        yield ResourceRole(network, Role.PEERS), seen


def _bound_edges(port: Port, host: str, peers: ResourceRole) -> Iterator[Edge]:
    yield AgentRoot(Service.POPULATION, host), peers
    if not is_router_port(port.device_owner):
        for subnet in _subnets(port):
            yield AgentRoot(Service.L3, host), ResourceRole(subnet, Role.ROUTED)


def _router_port_edges(port: Port) -> Iterator[Edge]:
    try:
        router = ResourceRole(Ref(Kind.ROUTER, UUID(port.device_id)), Role.HOME)
    except ValueError:
        return  # not attached to a router yet
    network = ResourceRole(Ref(Kind.NETWORK, port.network_id), Role.SEEN)
    itself = ResourceRole(ref(port), Role.ROUTER_PORT)
    yield router, itself
    yield itself, network
    if is_distributed(port.device_owner):
        yield network, ResourceRole(ref(port), Role.SEEN)
        for subnet in _subnets(port):
            yield ResourceRole(subnet, Role.ROUTED), router
            yield itself, ResourceRole(subnet, Role.AROUND)


def _trunk_edges(trunk: Trunk) -> Iterator[Edge]:
    parent = Ref(Kind.PORT, trunk.port_id)
    yield ResourceRole(parent, Role.HOME), ResourceRole(ref(trunk), Role.HOME)
    yield ResourceRole(ref(trunk), Role.SEEN), ResourceRole(parent, Role.SEEN)
    for child in (Ref(Kind.PORT, sub.port_id) for sub in trunk.sub_ports):
        yield ResourceRole(child, Role.HOME), ResourceRole(ref(trunk), Role.SEEN)
        yield ResourceRole(ref(trunk), Role.HOME), ResourceRole(child, Role.SEEN)


def _rule_edges(rule: SecurityGroupRule) -> Iterator[Edge]:
    seen = ResourceRole(ref(rule), Role.SEEN)
    yield ResourceRole(Ref(Kind.SECURITY_GROUP, rule.security_group_id), Role.SEEN), seen
    if rule.remote_group_id is not None:
        yield seen, ResourceRole(Ref(Kind.SECURITY_GROUP, rule.remote_group_id), Role.MEMBERS)
    if rule.remote_address_group_id is not None:
        yield seen, ResourceRole(Ref(Kind.ADDRESS_GROUP, rule.remote_address_group_id), Role.SEEN)


def _floating_ip_edges(floating: FloatingIp) -> Iterator[Edge]:
    if floating.router_id is None:
        return
    home = ResourceRole(ref(floating), Role.HOME)
    router = ResourceRole(Ref(Kind.ROUTER, floating.router_id), Role.HOME)
    yield router, home
    yield from _policies(home, floating.qos_policy_id)
    if floating.port_id is None:
        yield router, ResourceRole(ref(floating), Role.FORWARDING)
    else:
        yield home, ResourceRole(Ref(Kind.PORT, floating.port_id), Role.SEEN)


def _policies(node: ResourceRole, *ids: UUID | None) -> Iterator[Edge]:
    for id in ids:
        if id is not None:
            yield node, ResourceRole(Ref(Kind.QOS_POLICY, id), Role.SEEN)


def _subnets(port: Port) -> frozenset[Ref]:
    return frozenset(Ref(Kind.SUBNET, fixed.subnet_id) for fixed in port.fixed_ips)
