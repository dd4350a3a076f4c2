"""OvsMechanismDriver: binds ports to hosts whose L2 agent has an Open vSwitch.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.server.mechanism import (
    Binding,
    BindingRequest,
    Bound,
    MechanismCapability,
    MechanismDriver,
    Refused,
)
from netfw.drivers.values.qos_support import SupportedQosRule, effective_policy
from netfw.model.agent import Agent
from netfw.model.binding import VhostUserMode, VifDetails, VifType, VnicType
from netfw.model.qos import AnyDirection, QosRuleType
from netfw.model.segment import WELL_KNOWN_TYPES, NetworkType, Provider
from netfw.model.values.ids import PortId, SegmentId
from netfw_drivers.ovs.mechanism.agent_config import AgentReport, parse_report
from netfw_drivers.ovs.mechanism.qos_guarantees import guarantee_obstacle

AGENT_TYPE = "Open vSwitch agent"
SOCKET_PREFIX = "vhu"
SOCKET_NAME = 14
"""Characters, as the hypervisor's plug-in counts them."""


QOS_RULES = (
    SupportedQosRule(type=QosRuleType.BANDWIDTH_LIMIT),
    SupportedQosRule(type=QosRuleType.DSCP_MARKING, directions={AnyDirection.EGRESS}),
    SupportedQosRule(type=QosRuleType.MINIMUM_BANDWIDTH),
    SupportedQosRule(type=QosRuleType.MINIMUM_PACKET_RATE, directions=AnyDirection),
    SupportedQosRule(type=QosRuleType.PACKET_RATE_LIMIT),
)
"""The extension of the agent enforces limits and marks; guarantees depend on the host, see
`guarantee_obstacle`."""
QOS_EXTENSION = "qos"


class OvsMechanismDriver(MechanismDriver):
    """Binds ports by what the agent of the host reports.

    The first segment on offer that the agent can reach is taken.  There is nothing to deliver:
    agents read what concerns them from their source.
    """

    VERSION: ClassVar[int] = 2

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls()

    def describe(self) -> DriverInfo[MechanismCapability]:
        return DriverInfo("openvswitch")

    def supported_qos_rules(self) -> tuple[SupportedQosRule, ...]:
        return QOS_RULES

    def bind(self, request: BindingRequest) -> Binding:
        vnic = request.port.binding.vnic_type
        if vnic is not VnicType.NORMAL:
            return Refused(f"openvswitch plugs {VnicType.NORMAL} cards, and {vnic} is wanted")
        agent = _agent(request)
        if isinstance(agent, Refused):
            return agent
        try:
            report = parse_report(agent.configurations)
        except ValueError as exc:
            return Refused(f"the report of the {AGENT_TYPE} on {request.host} is wrong: {exc}")
        policy = effective_policy(request.port, request.network)
        if (policy is not None or request.qos_rules) and QOS_EXTENSION not in report.extensions:
            named = "its QoS rules" if policy is None else f"QoS policy {policy}"
            return Refused(
                f"the {AGENT_TYPE} on {request.host} does not run the extension {QOS_EXTENSION}, "
                f"which enforces {named}"
            )
        return _bind(request, report)


def _agent(request: BindingRequest) -> Agent | Refused:
    found = [agent for agent in request.agents if agent.agent_type == AGENT_TYPE]
    if not found:
        others = ", ".join(sorted({agent.agent_type for agent in request.agents})) or "no agent"
        return Refused(f"host {request.host} has no {AGENT_TYPE}: it has {others}")
    for agent in found:
        if agent.alive:
            return agent
    last = max((a.heartbeat_at for a in found if a.heartbeat_at is not None), default=None)
    when = "no heartbeat" if last is None else f"its last heartbeat at {last.isoformat()}"
    return Refused(f"the {AGENT_TYPE} on {request.host} is dead: it sent {when}")


def _bind(request: BindingRequest, report: AgentReport) -> Binding:
    reasons = []
    for segment in request.segments:
        reason = _obstacle(segment.provider, report) or guarantee_obstacle(
            request.qos_rules, segment.provider, report, request.port.binding.profile
        )
        if not reason:
            return _bound_to(request, report, segment.id)
        reasons.append(reason)
    return Refused(
        f"the {AGENT_TYPE} on {request.host} serves none of the segments: {'; '.join(reasons)}"
        if reasons
        else f"no segment of network {request.network.id} is on offer for host {request.host}"
    )


def _obstacle(provider: Provider, report: AgentReport) -> str:
    """Return why the agent cannot reach a segment; empty: it can."""
    kind, name = provider.network_type, provider.physical_network
    if kind is NetworkType.LOCAL:
        return ""
    if not kind.is_well_known:
        return f"{_named(provider)}: openvswitch carries {', '.join(WELL_KNOWN_TYPES)} segments"
    if kind.is_tunnel:
        if kind in report.tunnel_types:
            return ""
        known = ", ".join(sorted(report.tunnel_types)) or "empty"
        return f"{_named(provider)}: its tunnel_types are {known}"
    if name in report.physical_networks:
        return ""
    known = ", ".join(sorted(report.physical_networks)) or "none"
    return f"{_named(provider)}: its bridge_mappings have {known}"


def _named(provider: Provider) -> str:
    number = "" if provider.segmentation_id is None else f" {provider.segmentation_id}"
    where = "" if provider.physical_network is None else f" on {provider.physical_network}"
    return f"{provider.network_type}{number}{where}"


def _bound_to(request: BindingRequest, report: AgentReport, segment: SegmentId) -> Bound:
    mode = _vhost_user(report)
    details = VifDetails(
        port_filter=True,
        ovs_hybrid_plug=report.hybrid_plug,
        connectivity="l2",
        bridge_name=report.bridge,
        datapath_type=report.datapath_type,
        vhostuser_mode=mode,
        vhostuser_ovs_plug=None if mode is None else True,
        vhostuser_socket=None if mode is None else _socket(report, request.port.id),
    )
    vif_type = VifType.OVS if mode is None else VifType.VHOST_USER
    return Bound(segment=segment, vif_type=vif_type.value, vif_details=details)


def _vhost_user(report: AgentReport) -> VhostUserMode | None:
    """Return how instances are plugged by vhost-user, or ``None`` if they are not.

    A firewall on Linux bridges excludes it, since it would not see the packets.
    """
    if report.datapath_type != "netdev" or not report.socket_dir or report.hybrid_plug:
        return None
    if "dpdkvhostuserclient" in report.interface_types:
        return VhostUserMode.SERVER
    return VhostUserMode.CLIENT if "dpdkvhostuser" in report.interface_types else None


def _socket(report: AgentReport, port: PortId) -> str:
    return f"{report.socket_dir}/" + f"{SOCKET_PREFIX}{port}"[:SOCKET_NAME]
