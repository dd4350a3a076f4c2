"""The host and the facts that the desired state depends on.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import uuid5

from attrs import frozen

from netfw.agents.l2.hybrid_ports import has_hybrid_plug
from netfw.drivers.values.switch_values import Endpoint, SwitchDevice, SwitchFacts
from netfw.model.network import Network
from netfw.model.segment import WELL_KNOWN_TYPES, NetworkType, Segment, segmentation_ids
from netfw.model.values.ids import SegmentId


@frozen(kw_only=True)
class L2HostContext:
    """The properties of this host that the desired state depends on."""

    host: str
    facts: SwitchFacts
    population: bool = False
    """Forwarding entries come from the source; otherwise tunnels are meshed and learn."""
    forwarding: bool = False
    """The switch takes forwarding entries, with population or without."""
    arp_responder: bool = False
    distributed: bool = False
    """The host takes part in distributed routing, once it has its MAC address for that."""
    guard: bool = False
    """The switch guards ports against spoofing."""
    filtered: bool = False
    """The firewall in the switch decides what passes to and from ports."""
    filters_devices: bool = False
    """The firewall filters at the devices of ports, outside the switch."""
    filters_hybrid_plugs: bool = False
    """A second firewall filters ports with a hybrid plug, outside the switch."""
    sub_ports: bool = False
    """The switch has sub-ports of trunks."""

    def filters_outside(self, device: SwitchDevice) -> bool:
        """Return whether a second firewall filters the port of *device*, outside the switch."""
        return self.filters_hybrid_plugs and has_hybrid_plug(device.name)

    def own(self, type: NetworkType) -> Endpoint | None:
        """Return this host's tunnel endpoint of a type."""
        for endpoint in self.facts.endpoints:
            if endpoint.type == type:
                return endpoint
        return None

    def reaches(self, segment: Segment) -> bool:
        """Return whether this host can take part in *segment*."""
        return not self.unreachable_reason(segment)

    def unreachable_reason(self, segment: Segment) -> str:
        """Return what to change for this host to reach *segment*; empty: it does."""
        kind, physical = segment.provider.network_type, segment.provider.physical_network
        if not kind.is_well_known:
            return self._unreachable_vendor_type(kind, physical)
        if segment.provider.segmentation_id is None and segmentation_ids(kind) is not None:
            return f"give its {kind} segment a segmentation id"
        if kind is NetworkType.LOCAL:
            return ""
        if kind.is_tunnel:
            return "" if self.own(kind) else f"add {kind} to tunnel_types, and set local_ip"
        if physical in self.facts.physical_networks:
            return ""
        return f"map its physical network: add {physical}:BRIDGE to bridge_mappings"

    def _unreachable_vendor_type(self, kind: NetworkType, physical: str | None) -> str:
        if kind not in self.facts.network_types and self.own(kind) is None:
            carried = {*WELL_KNOWN_TYPES, *self.facts.network_types}
            known = ", ".join(sorted(carried))
            return f"use a switch driver that carries {kind} segments: this one carries {known}"
        if physical is not None and physical not in self.facts.physical_networks:
            return f"map its physical network {physical} in the options of the switch driver"
        return ""


def segments_of(network: Network, stored: Iterable[Segment]) -> tuple[Segment, ...]:
    """Return the segments of a network: stored ones, else those of the network itself."""
    ordered = tuple(sorted(stored, key=lambda segment: segment.id))
    return ordered or tuple(
        Segment(
            id=SegmentId(uuid5(network.id, f"segment {number}")),
            network_id=network.id,
            provider=provider,
        )
        for number, provider in enumerate(network.segments)
    )
