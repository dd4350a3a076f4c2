"""SriovMechanismDriver: binds functions of network cards that instances get passed through.  Pure.

A virtual function reaches a physical network through its card, beside the host's switch: it is on
flat networks and VLANs, and no firewall of the host sees its packets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from oslo_config import cfg

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.server.mechanism import (
    Binding,
    BindingRequest,
    Bound,
    MechanismCapability,
    MechanismDriver,
    Refused,
)
from netfw.model.agent import Agent
from netfw.model.binding import VifDetails, VifType, VnicType
from netfw.model.segment import NetworkType, Provider, Segment
from netfw.model.values.json_document import JsonDocument
from netfw_drivers.mechanism_drivers.pci_profile import PciProfile

NAME = "sriovnicswitch"
AGENT_TYPE = "NIC Switch agent"
VIF_TYPES = {
    VnicType.DIRECT: VifType.HW_VEB,
    VnicType.MACVTAP: VifType.HW_VEB,
    VnicType.DIRECT_PHYSICAL: VifType.HOSTDEV_PHYSICAL,
}
NETWORK_TYPES = (NetworkType.FLAT, NetworkType.VLAN)
SWITCHDEV = "switchdev"
UNTAGGED = 0


class SriovMechanismDriver(MechanismDriver):
    """Binds ports to functions of network cards, by the binding profile of the compute service.

    A virtual function needs the agent of the host, unless the configuration says that hosts have
    none.  A whole card (``direct-physical``) has nothing that an agent could configure.
    """

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        cfg.BoolOpt(
            "agent_required",
            default=True,
            help=f"Bind virtual functions only on hosts with a live {AGENT_TYPE} whose "
            "device_mappings have the physical network. If false, every host is taken to reach "
            "the physical network, and a port is ACTIVE as soon as it is bound.",
        ),
    )

    def __init__(self, *, agent_required: bool = True) -> None:
        self._agent_required = agent_required

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(agent_required=options["agent_required"])

    def describe(self) -> DriverInfo[MechanismCapability]:
        return DriverInfo(NAME)

    def bind(self, request: BindingRequest) -> Binding:
        vnic = request.port.binding.vnic_type
        if vnic not in VIF_TYPES:
            return Refused(f"{NAME} plugs {', '.join(VIF_TYPES)} cards, and {vnic} is wanted")
        try:
            profile = PciProfile.of(request.port.binding.profile)
        except ValueError as exc:
            return Refused(f"the binding profile is wrong: {exc}")
        if vnic is VnicType.DIRECT and SWITCHDEV in profile.capabilities:
            return Refused(f"a function of a {SWITCHDEV} card is a port of the host's switch")
        if vnic is VnicType.DIRECT_PHYSICAL or not self._agent_required:
            return _bind(request, profile, None)
        return _bind_by_agent(request, profile)


def _bind_by_agent(request: BindingRequest, profile: PciProfile) -> Binding:
    agent = _agent(request)
    if isinstance(agent, Refused):
        return agent
    try:
        mapped = _physical_networks(agent)
    except ValueError as exc:
        return Refused(f"the report of the {AGENT_TYPE} on {request.host} is wrong: {exc}")
    return _bind(request, profile, mapped)


def _agent(request: BindingRequest) -> Agent | Refused:
    found = [agent for agent in request.agents if agent.agent_type == AGENT_TYPE]
    if not found:
        return Refused(f"host {request.host} has no {AGENT_TYPE}, and agent_required is true")
    for agent in found:
        if agent.alive:
            return agent
    return Refused(f"the {AGENT_TYPE} on {request.host} is dead")


def _physical_networks(agent: Agent) -> frozenset[str]:
    """Return the physical networks that the cards of a host reach.

    :raises ValueError: the report is not what agents write.
    """
    mappings = agent.configurations.content().get("device_mappings") or {}
    if not isinstance(mappings, Mapping):
        raise ValueError(f"device_mappings is {mappings!r}")
    return frozenset(mappings)


def _bind(request: BindingRequest, profile: PciProfile, mapped: frozenset[str] | None) -> Binding:
    """Bind to the first segment within reach; *mapped* is ``None`` where no agent says what is."""
    reasons = []
    for segment in request.segments:
        reason = _obstacle(segment.provider, profile, mapped)
        if not reason:
            return _bound_to(request, segment, profile, wired=mapped is None)
        reasons.append(reason)
    return Refused(
        f"no card of {request.host} reaches a segment: {'; '.join(reasons)}"
        if reasons
        else f"no segment of network {request.network.id} is on offer for host {request.host}"
    )


def _obstacle(provider: Provider, profile: PciProfile, mapped: frozenset[str] | None) -> str:
    """Return why a function cannot be on a segment; empty: it can."""
    kind, name = provider.network_type, provider.physical_network
    if kind not in NETWORK_TYPES:
        return f"{kind}: cards are on {' and '.join(NETWORK_TYPES)} networks only"
    if profile.physical_network not in (None, name):
        return f"{kind} on {name}: the device is on {profile.physical_network}"
    if mapped is not None and name not in mapped:
        known = ", ".join(sorted(mapped)) or "none"
        return f"{kind} on {name}: the device_mappings of its {AGENT_TYPE} have {known}"
    return ""


def _bound_to(
    request: BindingRequest, segment: Segment, profile: PciProfile, *, wired: bool
) -> Bound:
    details = VifDetails(
        port_filter=False,
        connectivity="l2",
        vlan=segment.provider.segmentation_id or UNTAGGED,
        physical_network=segment.provider.physical_network,
        other=JsonDocument(profile.device()),
    )
    vif_type = VIF_TYPES[request.port.binding.vnic_type]
    return Bound(segment=segment.id, vif_type=vif_type.value, vif_details=details, wired=wired)
