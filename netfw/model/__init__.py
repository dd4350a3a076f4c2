"""The resources of netfw, such as networks and ports, as frozen values.  No I/O."""

from netfw.model.agent import Agent
from netfw.model.binding import (
    Binding,
    VhostUserMode,
    VifDetails,
    VifType,
    VnicType,
)
from netfw.model.floating_ip import FloatingIp, ForwardedProtocol, PortForwarding
from netfw.model.network import Network
from netfw.model.packet_log import LogEvent, LoggedResource, PacketLog
from netfw.model.port import (
    AddressPair,
    DnsAssignment,
    FixedIp,
    IpAllocation,
    Port,
)
from netfw.model.qos import (
    AnyDirection,
    BandwidthLimit,
    DscpMarking,
    MinimumBandwidth,
    MinimumPacketRate,
    PacketRateLimit,
    QosPolicy,
    QosRule,
)
from netfw.model.rbac_policy import RbacAction, RbacPolicy
from netfw.model.resource import (
    Kind,
    Ref,
    Resource,
    kind_of,
    ref,
)
from netfw.model.router import ExternalGateway, Router
from netfw.model.security_group import (
    AddressGroup,
    DefaultSecurityGroupRule,
    Direction,
    Ethertype,
    SecurityGroup,
    SecurityGroupRule,
)
from netfw.model.segment import NetworkType, Provider, Segment
from netfw.model.subnet import AllocationPool, Ipv6Mode, Subnet
from netfw.model.subnet_pool import AddressScope, SubnetPool
from netfw.model.trunk import SegmentationType, SubPort, Trunk, TrunkMembership
from netfw.model.values.address import (
    IpAddress,
    IpInterface,
    IpNetwork,
    Mac,
)
from netfw.model.values.common_fields import Status
from netfw.model.values.dhcp_option import DhcpOption
from netfw.model.values.ids import (
    AddressGroupId,
    AddressScopeId,
    AgentId,
    DefaultSecurityGroupRuleId,
    FlavorId,
    FloatingIpId,
    NetworkId,
    PacketLogId,
    PortForwardingId,
    PortId,
    QosPolicyId,
    QosRuleId,
    RbacPolicyId,
    RouterId,
    SecurityGroupId,
    SecurityGroupRuleId,
    SegmentId,
    SubnetId,
    SubnetPoolId,
    TrunkId,
)
from netfw.model.values.json_document import JsonDocument
from netfw.model.values.port_range import PortRange
from netfw.model.values.route import Route
from netfw.model.values.validation import InvalidValue

__all__ = [
    "AddressGroup",
    "AddressGroupId",
    "AddressPair",
    "AddressScope",
    "AddressScopeId",
    "Agent",
    "AgentId",
    "AllocationPool",
    "AnyDirection",
    "BandwidthLimit",
    "Binding",
    "DefaultSecurityGroupRule",
    "DefaultSecurityGroupRuleId",
    "DhcpOption",
    "Direction",
    "DnsAssignment",
    "DscpMarking",
    "Ethertype",
    "ExternalGateway",
    "FixedIp",
    "FlavorId",
    "FloatingIp",
    "FloatingIpId",
    "ForwardedProtocol",
    "InvalidValue",
    "IpAddress",
    "IpAllocation",
    "IpInterface",
    "IpNetwork",
    "Ipv6Mode",
    "JsonDocument",
    "Kind",
    "LogEvent",
    "LoggedResource",
    "Mac",
    "MinimumBandwidth",
    "MinimumPacketRate",
    "Network",
    "NetworkId",
    "NetworkType",
    "PacketLog",
    "PacketLogId",
    "PacketRateLimit",
    "Port",
    "PortForwarding",
    "PortForwardingId",
    "PortId",
    "PortRange",
    "Provider",
    "QosPolicy",
    "QosPolicyId",
    "QosRule",
    "QosRuleId",
    "RbacAction",
    "RbacPolicy",
    "RbacPolicyId",
    "Ref",
    "Resource",
    "Route",
    "Router",
    "RouterId",
    "SecurityGroup",
    "SecurityGroupId",
    "SecurityGroupRule",
    "SecurityGroupRuleId",
    "Segment",
    "SegmentId",
    "SegmentationType",
    "Status",
    "SubPort",
    "Subnet",
    "SubnetId",
    "SubnetPool",
    "SubnetPoolId",
    "Trunk",
    "TrunkId",
    "TrunkMembership",
    "VhostUserMode",
    "VifDetails",
    "VifType",
    "VnicType",
    "kind_of",
    "ref",
]
