"""Which resources an agent depends on: rules, as edges of a graph.

Every resource contributes edges, computed from that resource alone.  An agent's subscription is a
set of roots; the agent receives what can be reached from them.  A resource can be reached in
several *roles*: a port that is bound to a host brings its network and its groups with it, a port
that is only a member of a group brings nothing.  Roles keep the graph free of cycles::

    Root(L2)  -> port HOME    -> network SEEN -> subnets, segments, QoS policy,
                                                 distributed router interfaces,
                                                 distributed DHCP port
                              -> group SEEN   -> rules -> group MEMBERS -> ports SEEN
                                                       -> address group
                              -> QoS policy
              -> subnet DISTRIBUTED -> router DISTRIBUTED -> its networks SEEN
              -> agents with a tunnel address or a routing MAC address, enabled packet logs
    Root(POPULATION) -> network PEERS -> ports SEEN
              -> subnet DISTRIBUTED_PEERS -> router DISTRIBUTED_PEERS -> its networks PEERS
    Root(DHCP) -> network SERVED -> subnets, ports SERVED
    Root(L3)  -> subnet ROUTED   -> distributed router HOME
              -> router HOME     -> port ROUTER_PORT -> network SEEN, NDP proxies
              -> router ASSIGNED -> floating IP HOME -> port SEEN, QoS policy
                                 -> floating IP FORWARDING -> port forwardings
              -> floating IP HOME -> external network SEEN
              -> port FLOATING   -> floating IP PREPARED -> external network SEEN, QoS policy
              -> agent gateway ROUTER_PORT -> network SEEN

A port on several hosts (an interface of a highly available router) is HOME on each of them.  A host
that prepares for a port reaches it in the role PREPARED, which leads where HOME leads.

A distributed router is on each host that has or prepares for a port on one of its subnets.  Ports
of routers and gateways of agents do not count: routers would follow each other.  DHCP servers do,
since the instances they serve and their metadata proxy use the router.  A floating IP with a host
is on that host alone; without one it is where the router is assigned.  Hosts that prepare for its
port reach a floating IP with a host in the role PREPARED.

This module is stateless: a store with rows follows the same edges by queries.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, assert_never
from uuid import UUID

from attrs import frozen

from netfw.drivers.values.subscription import Service, Subscription
from netfw.model.agent import Agent
from netfw.model.floating_ip import FloatingIp, PortForwarding
from netfw.model.ndp_proxy import NdpProxy
from netfw.model.network import Network
from netfw.model.packet_log import PacketLog
from netfw.model.port import Port
from netfw.model.qos import QosPolicy
from netfw.model.rbac_policy import RbacPolicy
from netfw.model.resource import Kind, Ref, Resource, ref
from netfw.model.router import Router
from netfw.model.security_group import (
    AddressGroup,
    DefaultSecurityGroupRule,
    SecurityGroup,
    SecurityGroupRule,
)
from netfw.model.segment import Segment
from netfw.model.subnet import Subnet
from netfw.model.subnet_pool import AddressScope, SubnetPool
from netfw.model.trunk import Trunk
from netfw.model.values.device_owner import (
    DeviceOwner,
    is_distributed,
    is_distributed_dhcp,
    is_l3_agent_port,
    is_router_port,
)

EVERYWHERE: Final = ""
"""The host of roots that every agent of a service shares."""


class Role(enum.StrEnum):
    """The role in which a resource is reached."""

    HOME = "home"
    """This host implements it, and reports its status."""
    SERVED = "served"
    """This host serves it DHCP, and reports its status."""
    PREPARED = "prepared"
    """This host prepares for it: it may be activated here."""
    ROUTER_PORT = "router_port"
    """A port of a router on this host."""
    SEEN = "seen"
    """This host reads it."""
    MEMBERS = "members"
    PEERS = "peers"
    ROUTED = "routed"
    """A subnet of an instance on this host: its distributed routers are here."""
    ASSIGNED = "assigned"
    """A router that is scheduled to this host, with its floating IPs that have no host."""
    DISTRIBUTED = "distributed"
    """A distributed router on this host, or a subnet that it may be on, for the switch."""
    DISTRIBUTED_PEERS = "distributed_peers"
    """The same, for the ports behind the router."""
    FORWARDING = "forwarding"
    """A floating IP of a router on this host that forwards ports instead of standing for one
    port."""
    FLOATING = "floating"
    """A port that this host prepares for, with its floating IPs that have a host."""


DELIVERED: Final = frozenset({Role.HOME, Role.SERVED, Role.PREPARED, Role.ROUTER_PORT, Role.SEEN})
"""Roles in which a resource is delivered; the others only lead to other resources."""
REPORTED: Final = frozenset({Role.HOME, Role.SERVED})
INSTANCE_ROLES: Final = (
    (Service.L3, Role.ROUTED),
    (Service.L2, Role.DISTRIBUTED),
    (Service.POPULATION, Role.DISTRIBUTED_PEERS),
)
"""The role in which a service of a host reaches the subnets of the instances there."""


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
        root = AgentRoot(item.service, item.host)
        is_dhcp = item.service is Service.DHCP
        roles = (Role.SERVED,) if is_dhcp else (Role.HOME, Role.ASSIGNED)
        return iter([(root, ResourceRole(item.ref, role)) for role in roles])
    return _edges(item)


def is_known_everywhere(configurations: Mapping[str, Any]) -> bool:
    """Return whether all L2 agents know an agent that reports *configurations*."""
    return bool(configurations.get("tunneling_ip") or configurations.get("routing_mac"))


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
        case NdpProxy():
            router = Ref(Kind.ROUTER, item.router_id)
            yield ResourceRole(router, Role.HOME), ResourceRole(ref(item), Role.SEEN)
        case Agent() | PacketLog():
            if _is_seen_everywhere(item):
                yield AgentRoot(Service.L2, EVERYWHERE), ResourceRole(ref(item), Role.SEEN)
        case (
            SecurityGroup()
            | AddressGroup()
            | QosPolicy()
            | SubnetPool()
            | AddressScope()
            | RbacPolicy()
            | DefaultSecurityGroupRule()
            | Trunk()
        ):
            pass  # only the target of references, or read by the server alone
        case _:
            assert_never(item)


def _is_seen_everywhere(item: Agent | PacketLog) -> bool:
    if isinstance(item, PacketLog):
        return item.enabled
    return is_known_everywhere(item.configurations.content())


def _port_edges(port: Port) -> Iterator[Edge]:
    network, itself = Ref(Kind.NETWORK, port.network_id), ref(port)
    bound, prepared = port.binding.all_hosts, port.binding.prepared_hosts
    home, seen = ResourceRole(itself, Role.HOME), ResourceRole(itself, Role.SEEN)
    ahead = ResourceRole(itself, Role.PREPARED)
    groups = tuple(Ref(Kind.SECURITY_GROUP, id) for id in port.security_groups)
    for group in groups:
        yield ResourceRole(group, Role.MEMBERS), seen
    for node in (home, ahead) if prepared else (home,):
        yield node, ResourceRole(network, Role.SEEN)
        yield from _policies(node, port.qos_policy_id, port.qos_network_policy_id)
        yield from ((node, ResourceRole(group, Role.SEEN)) for group in groups)
    yield ResourceRole(network, Role.SERVED), ResourceRole(itself, Role.SERVED)
    if is_router_port(port.device_owner):
        yield from _router_port_edges(port)
    elif port.device_owner == DeviceOwner.FLOATING_IP_AGENT_GATEWAY:
        yield from _agent_gateway_edges(port)
    elif is_distributed_dhcp(port.device_owner, port.device_id):
        yield ResourceRole(network, Role.SEEN), seen
    for hosts, node in (bound, home), (prepared, ahead):
        for host in hosts:
            yield AgentRoot(Service.L2, host), node
            yield AgentRoot(Service.POPULATION, host), ResourceRole(network, Role.PEERS)
            if not is_l3_agent_port(port.device_owner):
                yield from _instance_edges(port, host)
    for host in prepared:
        yield AgentRoot(Service.L3, host), ResourceRole(itself, Role.FLOATING)
    if bound:
        yield ResourceRole(network, Role.PEERS), seen


def _instance_edges(port: Port, host: str) -> Iterator[Edge]:
    """Yield the edges to the subnets of *port*, on which the routers of *host* may be."""
    for subnet in _subnets(port):
        for service, role in INSTANCE_ROLES:
            yield AgentRoot(service, host), ResourceRole(subnet, role)


def _agent_gateway_edges(port: Port) -> Iterator[Edge]:
    itself = ResourceRole(ref(port), Role.ROUTER_PORT)
    yield itself, ResourceRole(Ref(Kind.NETWORK, port.network_id), Role.SEEN)
    if port.binding.host:
        yield AgentRoot(Service.L3, port.binding.host), itself


def _router_port_edges(port: Port) -> Iterator[Edge]:
    try:
        router = Ref(Kind.ROUTER, UUID(port.device_id))
    except ValueError:
        return  # not attached to a router yet
    network = Ref(Kind.NETWORK, port.network_id)
    itself = ResourceRole(ref(port), Role.ROUTER_PORT)
    yield ResourceRole(router, Role.HOME), itself
    yield itself, ResourceRole(network, Role.SEEN)
    if is_distributed(port.device_owner):
        yield ResourceRole(network, Role.SEEN), ResourceRole(ref(port), Role.SEEN)
        for subnet in _subnets(port):
            yield ResourceRole(subnet, Role.ROUTED), ResourceRole(router, Role.HOME)
            for role in (Role.DISTRIBUTED, Role.DISTRIBUTED_PEERS):
                yield ResourceRole(subnet, role), ResourceRole(router, role)
        yield ResourceRole(router, Role.DISTRIBUTED), ResourceRole(network, Role.SEEN)
        yield ResourceRole(router, Role.DISTRIBUTED_PEERS), ResourceRole(network, Role.PEERS)


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
    source: Source = ResourceRole(Ref(Kind.ROUTER, floating.router_id), Role.ASSIGNED)
    if floating.host is not None:
        source = AgentRoot(Service.L3, floating.host)
        yield home, ResourceRole(Ref(Kind.NETWORK, floating.network_id), Role.SEEN)
        yield from _prepared_floating_ip_edges(floating)
    yield source, home
    yield from _policies(home, floating.qos_policy_id)
    if floating.port_id is None:
        yield source, ResourceRole(ref(floating), Role.FORWARDING)
    else:
        yield home, ResourceRole(Ref(Kind.PORT, floating.port_id), Role.SEEN)


def _prepared_floating_ip_edges(floating: FloatingIp) -> Iterator[Edge]:
    if floating.port_id is not None:
        ahead = ResourceRole(ref(floating), Role.PREPARED)
        yield ResourceRole(Ref(Kind.PORT, floating.port_id), Role.FLOATING), ahead
        yield from _policies(ahead, floating.qos_policy_id)
        yield ahead, ResourceRole(Ref(Kind.NETWORK, floating.network_id), Role.SEEN)


def _policies(node: ResourceRole, *ids: UUID | None) -> Iterator[Edge]:
    for id in ids:
        if id is not None:
            yield node, ResourceRole(Ref(Kind.QOS_POLICY, id), Role.SEEN)


def _subnets(port: Port) -> frozenset[Ref]:
    return frozenset(Ref(Kind.SUBNET, fixed.subnet_id) for fixed in port.fixed_ips)
