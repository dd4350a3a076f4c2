"""The flows of a physical bridge.  Pure."""

from __future__ import annotations

from collections.abc import Iterator

from netfw import flows as of
from netfw.model.segment import NetworkType, Provider
from netfw_drivers.ovs.pipeline.tables import COOKIE, PHYSICAL, PHYSICAL_INPUT


def base_flows(link_port: int) -> Iterator[of.Flow]:
    """Yield the flows that forward normally, and drop packets of unknown VLANs from *link_port*.

    *link_port* leads to ``br-int``.
    """
    yield from PHYSICAL.miss_flows(COOKIE)
    yield PHYSICAL_INPUT.flow(of.in_port(link_port), of.drop(), priority=2, cookie=COOKIE)


def network_flows(vlan: int, provider: Provider, link_port: int) -> Iterator[of.Flow]:
    """Yield the flow that replaces a local *vlan* by the tag of the physical network."""
    if provider.network_type is NetworkType.VLAN:
        assert provider.segmentation_id is not None
        rename: of.Action = of.set_vlan(provider.segmentation_id)
    else:
        rename = of.PopVlan()
    yield PHYSICAL_INPUT.flow(
        of.in_port(link_port) & of.vlan(vlan), rename, of.normal(), priority=4, cookie=COOKIE
    )
