"""Ports and providers whose flows the tests compare."""

from ipaddress import ip_network
from uuid import UUID

from attrs import evolve

from netfw.drivers.values.allowed_source import AllowedSource
from netfw.drivers.values.pipeline_grant import GrantRequest, PipelineHook, TableRequest
from netfw.model.segment import NetworkType, Provider
from netfw.model.values.address import Mac
from netfw.model.values.ids import NetworkId, SegmentId
from netfw_drivers.ovs.common.local_vlans import BroadcastDomain
from netfw_drivers.ovs.pipeline.br_int import PlannedPort
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout
from netfw_drivers.ovs.pipeline.tables import (
    COOKIE,
    FILTERED_PORT,
    GUARDED_PORT,
    SHARED_MAC,
)

MAC, MAC_7 = Mac("fa:16:3e:00:00:01"), Mac("fa:16:3e:00:00:07")
PLAIN = ExtensionLayout()
WATCHED = ExtensionLayout().granted(
    GrantRequest(
        owner="ears",
        tables=(
            TableRequest(name="from", hook=PipelineHook.FROM_PORT),
            TableRequest(name="to", hook=PipelineHook.TO_PORT),
            TableRequest(name="sent", hook=PipelineHook.SENT),
            TableRequest(name="dropped", hook=PipelineHook.DROPPED),
        ),
    )
)
VLAN = Provider(network_type=NetworkType.VLAN, physical_network="p", segmentation_id=200)
FLAT = Provider(network_type=NetworkType.FLAT, physical_network="p")
SOURCES = frozenset(
    {
        AllowedSource(MAC, ip_network("10.0.0.1/32")),
        AllowedSource(MAC, ip_network("fd00::1/128")),
        AllowedSource("fa:16:3e:00:00:02", ip_network("0.0.0.0/0")),
    }
)
DOMAIN = BroadcastDomain(NetworkId(UUID(int=1)), SegmentId(UUID(int=2)))
PORT = PlannedPort(domain=DOMAIN, number=5, vlan=7, mac=MAC)
GUARDED = evolve(PORT, guard=SOURCES)
FILTERED = evolve(PORT, number=9, mac=Mac("fa:16:3e:00:00:09"), filtered=True)
SHARED = evolve(PORT, number=11, mac=Mac("fa:16:3e:00:00:0b"), shared_mac=True)


def texts(flows) -> list[str]:
    def bare(text: str) -> str:
        for mark in (0, FILTERED_PORT, GUARDED_PORT, SHARED_MAC):
            text = text.removeprefix(f"cookie={COOKIE | mark:#x}, ")
        return text

    return [bare(str(flow)) for flow in flows]
