"""From where the wanted state is looked at: this host, and what it offers.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import uuid5

from attrs import frozen

from netfw.drivers.switch_values import Endpoint, SwitchFacts
from netfw.model.ids import SegmentId
from netfw.model.network import Network
from netfw.model.segment import SEGMENTATION_IDS, NetworkType, Segment


@frozen(kw_only=True)
class L2HostContext:
    """This host, as the wanted state depends on it."""

    host: str
    facts: SwitchFacts
    population: bool = False
    """Forwarding entries come from the source; without it, tunnels are meshed and learn."""
    arp_responder: bool = False
    guard: bool = False
    """The switch keeps ports from using others' addresses."""
    filtered: bool = False
    """The switch leaves it to the firewall in it what passes to and from ports."""

    def own(self, type: NetworkType) -> Endpoint | None:
        """This host's end of tunnels of a type."""
        for endpoint in self.facts.endpoints:
            if endpoint.type is type:
                return endpoint
        return None

    def reaches(self, segment: Segment) -> bool:
        """Whether this host can take part in *segment*."""
        return not self.unreachable_reason(segment)

    def unreachable_reason(self, segment: Segment) -> str:
        """What to change for this host to take part in *segment*; empty: nothing."""
        kind, physical = segment.provider.network_type, segment.provider.physical_network
        if segment.provider.segmentation_id is None and kind in SEGMENTATION_IDS:
            return f"give its {kind} segment a segmentation id"
        if kind is NetworkType.LOCAL:
            return ""
        if kind.is_tunnel:
            return "" if self.own(kind) else f"add {kind} to tunnel_types, and set local_ip"
        if physical in self.facts.physical_networks:
            return ""
        return f"map its physical network: add {physical}:BRIDGE to bridge_mappings"


def segments_of(network: Network, stored: Iterable[Segment]) -> tuple[Segment, ...]:
    """The segments of a network: those that have an identity, else those the network names."""
    found = tuple(sorted(stored, key=lambda segment: segment.id))
    return found or tuple(
        Segment(
            id=SegmentId(uuid5(network.id, f"segment {number}")),
            network_id=network.id,
            provider=provider,
        )
        for number, provider in enumerate(network.segments)
    )
