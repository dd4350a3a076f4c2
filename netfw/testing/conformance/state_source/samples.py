"""A small cloud with every kind of resource, for the suite of state sources."""

from __future__ import annotations

from ipaddress import IPv4Network
from uuid import UUID

from attrs import evolve

from netfw.drivers.values.subscription import Service, Subscription
from netfw.model.agent import Agent
from netfw.model.binding import Binding
from netfw.model.floating_ip import FloatingIp, ForwardedProtocol, PortForwarding
from netfw.model.network import Network
from netfw.model.port import FixedIp, Port
from netfw.model.qos import QosPolicy
from netfw.model.resource import Resource, ref
from netfw.model.router import Router
from netfw.model.security_group import (
    AddressGroup,
    Direction,
    SecurityGroup,
    SecurityGroupRule,
)
from netfw.model.segment import NetworkType, Provider, Segment
from netfw.model.subnet import Subnet
from netfw.model.values.address import Mac
from netfw.model.values.device_owner import DeviceOwner
from netfw.model.values.ids import (
    AddressGroupId,
    AgentId,
    FloatingIpId,
    NetworkId,
    PortForwardingId,
    PortId,
    QosPolicyId,
    RouterId,
    SecurityGroupId,
    SecurityGroupRuleId,
    SegmentId,
    SubnetId,
)
from netfw.model.values.json_document import JsonDocument
from netfw.model.values.port_range import PortRange
from netfw.state.dependencies import Assignment

HERE, THERE = "here", "there"
L2_HERE = Subscription(HERE, {Service.L2})
L2_THERE = Subscription(THERE, {Service.L2})
DHCP_HERE = Subscription(HERE, {Service.DHCP})
L3_HERE = Subscription(HERE, {Service.L3})
POPULATED_HERE = Subscription(HERE, {Service.L2, Service.POPULATION})


def _id(number: int) -> UUID:
    return UUID(int=number)


QOS = QosPolicy(id=QosPolicyId(_id(1)), name="slow")
NET = Network(id=NetworkId(_id(10)), name="net", qos_policy_id=QOS.id)
OTHER_NET = Network(id=NetworkId(_id(11)), name="other")
SEGMENT = Segment(
    id=SegmentId(_id(20)),
    network_id=NET.id,
    provider=Provider(network_type=NetworkType.VXLAN, segmentation_id=7),
)
SUBNET = Subnet(id=SubnetId(_id(30)), network_id=NET.id, cidr=IPv4Network("10.0.0.0/24"))
OTHER_SUBNET = Subnet(
    id=SubnetId(_id(31)), network_id=OTHER_NET.id, cidr=IPv4Network("10.1.0.0/24")
)
HA_NET = Network(id=NetworkId(_id(12)), name="ha")
HA_SUBNET = Subnet(id=SubnetId(_id(32)), network_id=HA_NET.id, cidr=IPv4Network("169.254.192.0/18"))
SUBNETS = {subnet.network_id: subnet for subnet in (SUBNET, OTHER_SUBNET, HA_SUBNET)}
WEB = SecurityGroup(id=SecurityGroupId(_id(40)), name="web")
DB = SecurityGroup(id=SecurityGroupId(_id(41)), name="db")
OFFICE = AddressGroup(
    id=AddressGroupId(_id(42)), addresses=frozenset({IPv4Network("192.0.2.0/24")})
)
FROM_DB = SecurityGroupRule(
    id=SecurityGroupRuleId(_id(50)),
    security_group_id=WEB.id,
    direction=Direction.INGRESS,
    remote_group_id=DB.id,
)
FROM_OFFICE = SecurityGroupRule(
    id=SecurityGroupRuleId(_id(51)),
    security_group_id=WEB.id,
    direction=Direction.INGRESS,
    remote_address_group_id=OFFICE.id,
)


def port(number: int, host: str, network: Network = NET, *groups: SecurityGroup) -> Port:
    """Return an instance's port on *host*, with an address on the network's subnet."""
    subnet = SUBNETS[network.id]
    return Port(
        id=PortId(_id(100 + number)),
        network_id=network.id,
        mac=Mac(f"fa:16:3e:00:00:{number:02x}"),
        fixed_ips=(FixedIp(subnet_id=subnet.id, address=subnet.cidr[10 + number]),),
        security_groups=frozenset(group.id for group in groups),
        binding=Binding(host=host),
    )


WEB_HERE = port(1, HERE, NET, WEB)
DB_THERE = port(2, THERE, OTHER_NET, DB)
OTHER_HOST_PORT = port(3, THERE, OTHER_NET)
NEIGHBOUR = port(4, THERE, NET)
ROUTER = Router(id=RouterId(_id(60)), name="router")
ROUTER_PORT = evolve(
    port(5, HERE), device_owner=DeviceOwner.ROUTER_INTERFACE.value, device_id=str(ROUTER.id)
)
FLOATING = FloatingIp(
    id=FloatingIpId(_id(70)),
    network_id=OTHER_NET.id,
    address=OTHER_SUBNET.cidr[200],
    router_id=ROUTER.id,
    port_id=NEIGHBOUR.id,
    fixed_address=SUBNET.cidr[14],
)
FORWARDED = FloatingIp(
    id=FloatingIpId(_id(71)),
    network_id=OTHER_NET.id,
    address=OTHER_SUBNET.cidr[201],
    router_id=ROUTER.id,
)
FORWARDING = PortForwarding(
    id=PortForwardingId(_id(72)),
    floating_ip_id=FORWARDED.id,
    protocol=ForwardedProtocol.TCP,
    external_ports=PortRange(8000, 8009),
    internal_ports=PortRange.single(80),
    internal_port_id=NEIGHBOUR.id,
    internal_address=SUBNET.cidr[14],
)
AGENT_THERE = Agent(
    id=AgentId(_id(80)),
    agent_type="Open vSwitch agent",
    binary="netfw-ovs-agent",
    host=THERE,
    configurations=JsonDocument({"tunneling_ip": "192.0.2.2", "tunnel_types": ["vxlan"]}),
)
GATEWAY_PORT = evolve(
    port(6, HERE, OTHER_NET),
    device_owner=DeviceOwner.ROUTER_GATEWAY.value,
    device_id=str(ROUTER.id),
)
DHCP_ASSIGNMENT = Assignment(Service.DHCP, HERE, ref(NET))
ROUTER_ASSIGNMENT = Assignment(Service.L3, HERE, ref(ROUTER))

HA_ROUTER = Router(id=RouterId(_id(61)), name="ha-router", ha=True, vrid=1)
HA_INTERFACE = evolve(
    port(7, ""),
    device_owner=DeviceOwner.HA_ROUTER_REPLICATED_INTERFACE.value,
    device_id=str(HA_ROUTER.id),
    binding=Binding(hosts={HERE, THERE}),
)
HA_PORT_HERE, HA_PORT_THERE = (
    evolve(
        port(number, host, HA_NET),
        device_owner=DeviceOwner.ROUTER_HA_INTERFACE.value,
        device_id=str(HA_ROUTER.id),
    )
    for number, host in ((10, HERE), (11, THERE))
)
HA_RESOURCES: tuple[Resource, ...] = (
    HA_NET, HA_SUBNET, HA_ROUTER, HA_INTERFACE, HA_PORT_HERE, HA_PORT_THERE,
)  # fmt: skip
HA_ASSIGNMENTS = tuple(Assignment(Service.L3, host, ref(HA_ROUTER)) for host in (HERE, THERE))

BACKGROUND: tuple[Resource, ...] = (
    QOS, NET, OTHER_NET, SEGMENT, SUBNET, OTHER_SUBNET, WEB, DB, OFFICE, FROM_DB, FROM_OFFICE,
    DB_THERE, OTHER_HOST_PORT, NEIGHBOUR, ROUTER, FLOATING, FORWARDED, FORWARDING, AGENT_THERE,
)  # fmt: skip
"""All resources that do not concern ``HERE``; an agent there gets the tunnel endpoint only."""
WITH_WEB_HERE: tuple[Resource, ...] = (
    WEB_HERE, NET, QOS, SEGMENT, SUBNET, WEB, FROM_DB, FROM_OFFICE, OFFICE, DB_THERE,
)  # fmt: skip
"""The resources that the first port on ``HERE`` depends on."""
