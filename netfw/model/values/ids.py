"""Names for identities, so that a port's id is never taken for a network's."""

from __future__ import annotations

from typing import NewType
from uuid import UUID

AddressGroupId = NewType("AddressGroupId", UUID)
AddressScopeId = NewType("AddressScopeId", UUID)
AgentId = NewType("AgentId", UUID)
ConntrackHelperId = NewType("ConntrackHelperId", UUID)
DefaultSecurityGroupRuleId = NewType("DefaultSecurityGroupRuleId", UUID)
FirewallGroupId = NewType("FirewallGroupId", UUID)
FirewallRuleId = NewType("FirewallRuleId", UUID)
FlavorId = NewType("FlavorId", UUID)
FloatingIpId = NewType("FloatingIpId", UUID)
LocalIpId = NewType("LocalIpId", UUID)
NdpProxyId = NewType("NdpProxyId", UUID)
NetworkId = NewType("NetworkId", UUID)
PacketLogId = NewType("PacketLogId", UUID)
PortForwardingId = NewType("PortForwardingId", UUID)
PortId = NewType("PortId", UUID)
QosPolicyId = NewType("QosPolicyId", UUID)
QosRuleId = NewType("QosRuleId", UUID)
RbacPolicyId = NewType("RbacPolicyId", UUID)
RouterId = NewType("RouterId", UUID)
SecurityGroupId = NewType("SecurityGroupId", UUID)
SecurityGroupRuleId = NewType("SecurityGroupRuleId", UUID)
SegmentId = NewType("SegmentId", UUID)
SubnetId = NewType("SubnetId", UUID)
SubnetPoolId = NewType("SubnetPoolId", UUID)
TrunkId = NewType("TrunkId", UUID)
