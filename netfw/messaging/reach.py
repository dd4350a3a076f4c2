"""Which resources concern an agent: rules, as edges of a graph.

Every resource contributes edges, by looking at itself alone.  An agent's interest is a set of
roots; what is delivered to it is what can be reached from them.  A resource can be reached in
several *facets*: the port that is bound to a host brings its network and its groups with it, the
port that is merely a member of a group brings nothing.  Facets make the graph free of cycles::

    Root(L2)  -> port HOME    -> network SEEN -> subnets, segments, QoS policy, distributed legs
                              -> group SEEN   -> rules -> group MEMBERS -> ports SEEN
                                                       -> address group
                              -> QoS policy, trunk -> its ports SEEN
    Root(POPULATION) -> network PEERS -> ports SEEN
    Root(DHCP) -> network SERVED -> subnets, ports SERVED
    Root(L3)  -> subnet ROUTED -> distributed router HOME
              -> router HOME  -> port LEG -> network SEEN, subnet AROUND -> ports SEEN
                              -> floating IP HOME -> port forwardings, port SEEN, QoS policy

Nothing here remembers anything: a store that keeps rows follows the same edges by its own means.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, assert_never
from uuid import UUID

from attrs import frozen

from netfw.drivers.subscription import Service, Subscription
from netfw.model.agent import Agent
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
ROUTER_OWNERS: Final = ("network:router_", "network:ha_router_")
DISTRIBUTED_OWNER: Final = "network:router_interface_distributed"


class Facet(enum.StrEnum):
    """As what a resource is reached."""

    HOME = "home"
    """This host makes it work, and reports on it."""
    SERVED = "served"
    """This host serves it DHCP, and reports on it."""
    LEG = "leg"
    """A port of a router that is here."""
    SEEN = "seen"
    """It must be known."""
    MEMBERS = "members"
    PEERS = "peers"
    ROUTED = "routed"
    AROUND = "around"


DELIVERED: Final = frozenset({Facet.HOME, Facet.SERVED, Facet.LEG, Facet.SEEN})
"""Reached as one of these, a resource is delivered; the others only lead to more."""
REPORTED: Final = frozenset({Facet.HOME, Facet.SERVED})


@frozen
class Root:
    """What one service of one host begins with."""

    service: Service
    host: str


@frozen(cache_hash=True)
class Node:
    """A resource in one facet."""

    ref: Ref
    facet: Facet


@frozen
class Assignment:
    """A network or router that somebody scheduled to a host's service."""

    service: Service
    host: str
    ref: Ref


Source = Root | Node
Edge = tuple[Source, Node]
Item = Resource | Assignment
"""Whatever contributes edges."""


def roots(interest: Subscription) -> frozenset[Root]:
    """Where everything begins that concerns *interest*."""
    return frozenset(
        Root(service, host) for service in interest.services for host in (interest.host, EVERYWHERE)
    )


def reachable(items: Iterable[Item], interest: Subscription) -> Mapping[Ref, Resource]:
    """All that concerns *interest*, from scratch: the definition that sources are held to."""
    resources: dict[Ref, Resource] = {}
    out: dict[Source, list[Node]] = {}
    for item in items:
        if not isinstance(item, Assignment):
            resources[ref(item)] = item
        for source, node in edges(item):
            out.setdefault(source, []).append(node)
    queue: deque[Source] = deque(roots(interest))
    reached: set[Node] = set()
    while queue:
        new = [node for node in out.get(queue.popleft(), ()) if node not in reached]
        reached.update(new)
        queue.extend(new)
    found = {node.ref for node in reached if node.facet in DELIVERED}
    return {key: resource for key, resource in resources.items() if key in found}


def edges(item: Item) -> frozenset[Edge]:
    """What *item* says about who needs whom."""
    return frozenset(each_edge(item))


def each_edge(item: Item) -> Iterator[Edge]:
    """The same, one after the other; some perhaps twice."""
    if isinstance(item, Assignment):
        facet = Facet.SERVED if item.service is Service.DHCP else Facet.HOME
        return iter(((Root(item.service, item.host), Node(item.ref, facet)),))
    return _edges(item)


def _edges(item: Resource) -> Iterator[Edge]:
    match item:
        case Port():
            yield from _port_edges(item)
        case Network():
            yield from _policies(Node(ref(item), Facet.SEEN), item.qos_policy_id)
        case Segment() | Subnet():
            network = Ref(Kind.NETWORK, item.network_id)
            yield Node(network, Facet.SEEN), Node(ref(item), Facet.SEEN)
            yield Node(network, Facet.SERVED), Node(ref(item), Facet.SEEN)
        case Trunk():
            yield from _trunk_edges(item)
        case SecurityGroupRule():
            yield from _rule_edges(item)
        case Router():
            gateway = item.gateway
            policy = None if gateway is None else gateway.qos_policy_id
            yield from _policies(Node(ref(item), Facet.HOME), policy)
        case FloatingIp():
            yield from _floating_ip_edges(item)
        case PortForwarding():
            floating = Ref(Kind.FLOATING_IP, item.floating_ip_id)
            yield Node(floating, Facet.HOME), Node(ref(item), Facet.SEEN)
        case Agent():
            if item.configurations.content().get("tunneling_ip"):
                yield Root(Service.L2, EVERYWHERE), Node(ref(item), Facet.SEEN)
        case SecurityGroup() | AddressGroup() | QosPolicy():
            pass  # others refer to them, they to nobody
        case _:
            assert_never(item)


def _port_edges(port: Port) -> Iterator[Edge]:
    network, itself = Ref(Kind.NETWORK, port.network_id), ref(port)
    home, seen = Node(itself, Facet.HOME), Node(itself, Facet.SEEN)
    yield home, Node(network, Facet.SEEN)
    yield from _policies(home, port.qos_policy_id, port.qos_network_policy_id)
    for group in (Ref(Kind.SECURITY_GROUP, id) for id in port.security_groups):
        yield home, Node(group, Facet.SEEN)
        yield Node(group, Facet.MEMBERS), seen
    yield Node(network, Facet.SERVED), Node(itself, Facet.SERVED)
    for subnet in _subnets(port):
        yield Node(subnet, Facet.AROUND), seen
    if port.device_owner.startswith(ROUTER_OWNERS):
        yield from _leg_edges(port)
    if port.binding.host:
        yield Root(Service.L2, port.binding.host), home
        yield from _bound_edges(port, Node(network, Facet.PEERS), seen)


def _bound_edges(port: Port, peers: Node, seen: Node) -> Iterator[Edge]:
    host = port.binding.host
    yield Root(Service.POPULATION, host), peers
    yield peers, seen
    if not port.device_owner.startswith(ROUTER_OWNERS):
        for subnet in _subnets(port):
            yield Root(Service.L3, host), Node(subnet, Facet.ROUTED)


def _leg_edges(port: Port) -> Iterator[Edge]:
    try:
        router = Node(Ref(Kind.ROUTER, UUID(port.device_id)), Facet.HOME)
    except ValueError:
        return  # it is about to become a router's
    network = Node(Ref(Kind.NETWORK, port.network_id), Facet.SEEN)
    leg = Node(ref(port), Facet.LEG)
    yield router, leg
    yield leg, network
    if port.device_owner == DISTRIBUTED_OWNER:
        yield network, Node(ref(port), Facet.SEEN)
        for subnet in _subnets(port):
            yield Node(subnet, Facet.ROUTED), router
            yield leg, Node(subnet, Facet.AROUND)


def _trunk_edges(trunk: Trunk) -> Iterator[Edge]:
    parent = Ref(Kind.PORT, trunk.port_id)
    yield Node(parent, Facet.HOME), Node(ref(trunk), Facet.HOME)
    yield Node(ref(trunk), Facet.SEEN), Node(parent, Facet.SEEN)
    for child in (Ref(Kind.PORT, sub.port_id) for sub in trunk.sub_ports):
        yield Node(child, Facet.HOME), Node(ref(trunk), Facet.SEEN)
        yield Node(ref(trunk), Facet.HOME), Node(child, Facet.SEEN)


def _rule_edges(rule: SecurityGroupRule) -> Iterator[Edge]:
    seen = Node(ref(rule), Facet.SEEN)
    yield Node(Ref(Kind.SECURITY_GROUP, rule.security_group_id), Facet.SEEN), seen
    if rule.remote_group_id is not None:
        yield seen, Node(Ref(Kind.SECURITY_GROUP, rule.remote_group_id), Facet.MEMBERS)
    if rule.remote_address_group_id is not None:
        yield seen, Node(Ref(Kind.ADDRESS_GROUP, rule.remote_address_group_id), Facet.SEEN)


def _floating_ip_edges(floating: FloatingIp) -> Iterator[Edge]:
    if floating.router_id is None:
        return
    home = Node(ref(floating), Facet.HOME)
    yield Node(Ref(Kind.ROUTER, floating.router_id), Facet.HOME), home
    yield from _policies(home, floating.qos_policy_id)
    if floating.port_id is not None:
        yield home, Node(Ref(Kind.PORT, floating.port_id), Facet.SEEN)


def _policies(node: Node, *ids: UUID | None) -> Iterator[Edge]:
    for id in ids:
        if id is not None:
            yield node, Node(Ref(Kind.QOS_POLICY, id), Facet.SEEN)


def _subnets(port: Port) -> frozenset[Ref]:
    return frozenset(Ref(Kind.SUBNET, fixed.subnet_id) for fixed in port.fixed_ips)
