"""The union of all resources, and references to them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from uuid import UUID

from attrs import frozen

from netfw.model.agent import Agent
from netfw.model.floating_ip import FloatingIp, PortForwarding
from netfw.model.ndp_proxy import NdpProxy
from netfw.model.network import Network
from netfw.model.packet_log import PacketLog
from netfw.model.port import Port
from netfw.model.qos import QosPolicy
from netfw.model.rbac_policy import RbacPolicy
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

Resource = (
    Network
    | Segment
    | Subnet
    | SubnetPool
    | AddressScope
    | Port
    | Router
    | FloatingIp
    | PortForwarding
    | NdpProxy
    | SecurityGroup
    | SecurityGroupRule
    | DefaultSecurityGroupRule
    | AddressGroup
    | PacketLog
    | QosPolicy
    | RbacPolicy
    | Trunk
    | Agent
)
"""The values that the server stores, journals and sends; each has ``id`` and ``revision``."""


class Kind(enum.StrEnum):
    """The kind of a resource, by its name in the API."""

    NETWORK = "network"
    SEGMENT = "segment"
    SUBNET = "subnet"
    SUBNET_POOL = "subnetpool"
    ADDRESS_SCOPE = "address_scope"
    PORT = "port"
    ROUTER = "router"
    FLOATING_IP = "floatingip"
    PORT_FORWARDING = "port_forwarding"
    NDP_PROXY = "ndp_proxy"
    SECURITY_GROUP = "security_group"
    SECURITY_GROUP_RULE = "security_group_rule"
    DEFAULT_SECURITY_GROUP_RULE = "default_security_group_rule"
    ADDRESS_GROUP = "address_group"
    PACKET_LOG = "log"
    QOS_POLICY = "policy"
    RBAC_POLICY = "rbac_policy"
    TRUNK = "trunk"
    AGENT = "agent"


KINDS: Mapping[type[Resource], Kind] = MappingProxyType(
    {
        Network: Kind.NETWORK,
        Segment: Kind.SEGMENT,
        Subnet: Kind.SUBNET,
        SubnetPool: Kind.SUBNET_POOL,
        AddressScope: Kind.ADDRESS_SCOPE,
        Port: Kind.PORT,
        Router: Kind.ROUTER,
        FloatingIp: Kind.FLOATING_IP,
        PortForwarding: Kind.PORT_FORWARDING,
        NdpProxy: Kind.NDP_PROXY,
        SecurityGroup: Kind.SECURITY_GROUP,
        SecurityGroupRule: Kind.SECURITY_GROUP_RULE,
        DefaultSecurityGroupRule: Kind.DEFAULT_SECURITY_GROUP_RULE,
        AddressGroup: Kind.ADDRESS_GROUP,
        PacketLog: Kind.PACKET_LOG,
        QosPolicy: Kind.QOS_POLICY,
        RbacPolicy: Kind.RBAC_POLICY,
        Trunk: Kind.TRUNK,
        Agent: Kind.AGENT,
    }
)


@frozen(cache_hash=True)
class Ref:
    """A reference to a resource, whatever its revision."""

    kind: Kind
    id: UUID

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


def kind_of(resource: Resource) -> Kind:
    """Return the kind of *resource*."""
    return KINDS[type(resource)]


def ref(resource: Resource) -> Ref:
    """Return the reference to *resource*."""
    return Ref(kind_of(resource), resource.id)
