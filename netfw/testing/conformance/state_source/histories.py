"""Histories for property tests of state sources: commits in a universe where ids collide.

The universe is a fixed table of items, two or three for each id and few ids of each kind, so that
a drawn history is a list of numbers: quick to draw, short to print, and it shrinks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache
from ipaddress import IPv4Network
from itertools import product
from typing import TypeVar
from uuid import UUID

from attrs import frozen
from hypothesis import strategies as st

from netfw.drivers.values.subscription import Service, Subscription
from netfw.model.agent import Agent
from netfw.model.binding import Binding
from netfw.model.floating_ip import FloatingIp, ForwardedProtocol, PortForwarding
from netfw.model.network import Network
from netfw.model.packet_log import PacketLog
from netfw.model.port import FixedIp, Port
from netfw.model.qos import QosPolicy
from netfw.model.resource import Kind, Ref, ref
from netfw.model.router import ExternalGateway, Router
from netfw.model.security_group import (
    AddressGroup,
    Direction,
    SecurityGroup,
    SecurityGroupRule,
)
from netfw.model.segment import NetworkType, Provider, Segment
from netfw.model.subnet import Subnet
from netfw.model.trunk import TrunkMembership
from netfw.model.values.address import Mac
from netfw.model.values.device_owner import (
    COMPUTE_PREFIX,
    DISTRIBUTED_DHCP_DEVICE,
    DeviceOwner,
    is_dhcp,
)
from netfw.model.values.ids import (
    AddressGroupId,
    AgentId,
    FloatingIpId,
    NetworkId,
    PacketLogId,
    PortForwardingId,
    PortId,
    QosPolicyId,
    RouterId,
    SecurityGroupId,
    SecurityGroupRuleId,
    SegmentId,
    SubnetId,
    TrunkId,
)
from netfw.model.values.json_document import JsonDocument
from netfw.model.values.port_range import PortRange
from netfw.state.dependencies import Assignment, Item

T = TypeVar("T")

HOSTS = ("a", "b")
OWNERS = (
    f"{COMPUTE_PREFIX}x",
    DeviceOwner.DHCP.value,
    DeviceOwner.ROUTER_INTERFACE.value,
    DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED.value,
    DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED.value,
    DeviceOwner.HA_ROUTER_REPLICATED_INTERFACE.value,
    DeviceOwner.ROUTER_CENTRALIZED_SNAT.value,
    DeviceOwner.FLOATING_IP_AGENT_GATEWAY.value,
)
PORTS = 200
FACTS: tuple[dict[str, str], ...] = (
    {},
    {"tunneling_ip": "192.0.2.9"},
    {"routing_mac": "fa:16:3f:00:00:09"},
)


def _ids(kind: Callable[[UUID], T], number: int) -> tuple[T, T]:
    return kind(UUID(int=number * 10 + 1)), kind(UUID(int=number * 10 + 2))


NETWORKS = _ids(NetworkId, 1)
SUBNETS = _ids(SubnetId, 2)
SEGMENTS = _ids(SegmentId, 3)
PORT_IDS = (*_ids(PortId, 4), *_ids(PortId, 5))
GROUPS = _ids(SecurityGroupId, 6)
RULES = _ids(SecurityGroupRuleId, 7)
ADDRESS_GROUPS = _ids(AddressGroupId, 8)
LOGS = _ids(PacketLogId, 19)
POLICIES = _ids(QosPolicyId, 9)
TRUNK = TrunkMembership(trunk_id=TrunkId(UUID(int=101)))
ROUTERS = _ids(RouterId, 11)
FLOATING_IPS = _ids(FloatingIpId, 12)
FORWARDINGS = _ids(PortForwardingId, 13)
AGENTS = _ids(AgentId, 14)
NAMES = ("", "x")
OUTSIDE, OUTSIDE_SUBNET = NetworkId(UUID(int=13)), SubnetId(UUID(int=23))
CIDRS = {
    SUBNETS[0]: IPv4Network("10.0.0.0/24"),
    SUBNETS[1]: IPv4Network("10.0.1.0/24"),
    OUTSIDE_SUBNET: IPv4Network("203.0.113.0/24"),
}


@cache
def universe() -> tuple[Item, ...]:
    """Return every item that can occur, the same in each run; about half are ports."""
    chance = random.Random(1)
    items: list[Item] = [_port(chance) for _ in range(PORTS)]
    items += _networks()
    items += _groups()
    items += _routing()
    items += _scheduling()
    chance.shuffle(items)
    return tuple(items)


def key(item: Item) -> Ref | Assignment:
    """Return the key that removes *item*."""
    return item if isinstance(item, Assignment) else ref(item)


def _port(chance: random.Random) -> Port:
    subnets = chance.sample(SUBNETS, chance.randint(0, 2))
    owner = chance.choice(OWNERS)
    is_distributed = is_dhcp(owner) and chance.random() < 0.5
    return Port(
        id=chance.choice(PORT_IDS),
        network_id=chance.choice((*NETWORKS, OUTSIDE)),
        mac=Mac("fa:16:3e:00:00:01"),
        fixed_ips=tuple(FixedIp(subnet_id=id, address=CIDRS[id][9]) for id in subnets),
        security_groups=frozenset(chance.sample(GROUPS, chance.randint(0, 2))),
        qos_policy_id=chance.choice((None, *POLICIES)),
        binding=Binding(
            host=chance.choice(("", *HOSTS, *HOSTS)),
            hosts=chance.sample(HOSTS, chance.choice((0, 0, 1, 2))),
            prepared_hosts=chance.sample(HOSTS, chance.choice((0, 0, 0, 1, 2))),
        ),
        device_owner=owner,
        device_id=DISTRIBUTED_DHCP_DEVICE if is_distributed else str(chance.choice(ROUTERS)),
        name=chance.choice(NAMES),
        trunk=chance.choice((None, None, TRUNK)),
    )


def _networks() -> Iterator[Item]:
    provider = Provider(network_type=NetworkType.LOCAL)
    for network, maybe in product((*NETWORKS, OUTSIDE), (None, *POLICIES)):
        yield Network(id=network, qos_policy_id=maybe)
    yield Subnet(id=OUTSIDE_SUBNET, network_id=OUTSIDE, cidr=CIDRS[OUTSIDE_SUBNET])
    for number, network in product((0, 1), NETWORKS):
        subnet = SUBNETS[number]
        yield Subnet(id=subnet, network_id=network, cidr=CIDRS[subnet])
        yield Segment(id=SEGMENTS[number], network_id=network, provider=provider)
    for policy, name in product(POLICIES, NAMES):
        yield QosPolicy(id=policy, name=name)


def _groups() -> Iterator[Item]:
    for group, name in product(GROUPS, NAMES):
        yield SecurityGroup(id=group, name=name)
    for addresses, name in product(ADDRESS_GROUPS, NAMES):
        yield AddressGroup(id=addresses, name=name)
    for log, logged, enabled in product(LOGS, (None, GROUPS[0]), (True, False)):
        yield PacketLog(id=log, resource_id=logged, enabled=enabled)
    for rule, group, number in product(RULES, GROUPS, (0, 1)):
        yield SecurityGroupRule(
            id=rule,
            security_group_id=group,
            direction=Direction.INGRESS,
            remote_group_id=GROUPS[number],
        )
        yield SecurityGroupRule(
            id=rule,
            security_group_id=group,
            direction=Direction.EGRESS,
            remote_address_group_id=ADDRESS_GROUPS[number],
        )


def _routing() -> Iterator[Item]:
    for router, policy in product(ROUTERS, (None, *POLICIES)):
        gateway = ExternalGateway(network_id=OUTSIDE, qos_policy_id=policy)
        yield Router(id=router, gateway=gateway)
    of_routers, at_hosts = (None, *ROUTERS), (None, *HOSTS)
    for floating, of_router, port, host in product(
        FLOATING_IPS, of_routers, (None, PORT_IDS[0]), at_hosts
    ):
        yield FloatingIp(
            id=floating,
            network_id=OUTSIDE,
            address=CIDRS[OUTSIDE_SUBNET][99 + FLOATING_IPS.index(floating)],
            port_id=port,
            router_id=of_router,
            host=host,
            qos_policy_id=None if port is None else POLICIES[FLOATING_IPS.index(floating)],
        )
    for forwarding, floating in product(FORWARDINGS, FLOATING_IPS):
        yield PortForwarding(
            id=forwarding,
            floating_ip_id=floating,
            protocol=ForwardedProtocol.TCP,
            external_ports=PortRange.single(80 + FORWARDINGS.index(forwarding)),
            internal_ports=PortRange.single(80),
            internal_port_id=PORT_IDS[0],
            internal_address=CIDRS[SUBNETS[0]][9],
        )


def _scheduling() -> Iterator[Item]:
    for agent, host, facts in product(AGENTS, HOSTS, FACTS):
        yield Agent(
            id=agent,
            agent_type="agent",
            binary="agent",
            host=host,
            configurations=JsonDocument(facts),
        )
    for host, number in product(HOSTS, (0, 1)):
        yield Assignment(Service.DHCP, host, Ref(Kind.NETWORK, NETWORKS[number]))
        yield Assignment(Service.L3, host, Ref(Kind.ROUTER, ROUTERS[number]))


@frozen
class Commit:
    """Items put and removed at once, by number in the universe.  A put item is not removed."""

    put: list[int]
    remove: list[int]


@frozen
class Read:
    """A read by one follower of so many pages or deltas: a hint arrived, perhaps twice."""

    who: int
    times: int


@frozen
class Forget:
    """The loss of the source's history."""


@frozen
class Restore:
    """A restore: a backup replaces everything."""

    items: list[int]


Step = Commit | Read | Forget | Restore

_numbers = st.integers(0, len(universe()) - 1)
_backends = st.lists(_numbers, min_size=10, max_size=40)
_commits = st.builds(Commit, st.lists(_numbers, max_size=4), st.lists(_numbers, max_size=3))
_reads = st.builds(Read, st.integers(0, 1), st.integers(1, 6))
_accidents = st.builds(Forget) | st.builds(Restore, _backends)
_steps = st.one_of(_commits, _reads, _commits, _reads, _commits, _reads, _accidents)

_CONCERNED = tuple(service for service in Service if service is not Service.METADATA)
"""Services that at least one resource concerns."""
subscriptions: st.SearchStrategy[Subscription] = st.builds(
    Subscription, st.sampled_from(HOSTS), st.frozensets(st.sampled_from(_CONCERNED), min_size=1)
)
histories: st.SearchStrategy[list[Step]] = st.builds(
    lambda backend, rest: [Commit(backend, []), *rest],
    _backends,
    st.lists(_steps, min_size=4, max_size=30),
)
"""The initial items, and the steps that follow."""
