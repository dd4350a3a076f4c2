"""Samples of the mechanism driver suite: a network, a subnet, a port, and their changes."""

from __future__ import annotations

from uuid import NAMESPACE_DNS, UUID, uuid5

from attrs import evolve

from netfw.drivers.server.change import Change
from netfw.drivers.server.mechanism import BindingRequest
from netfw.model.agent import Agent
from netfw.model.binding import Binding, VifType
from netfw.model.network import Network
from netfw.model.port import FixedIp, Port
from netfw.model.segment import NetworkType, Provider, Segment
from netfw.model.subnet import AllocationPool, Subnet
from netfw.model.values.common_fields import Status
from netfw.model.values.ids import AgentId, NetworkId, PortId, SegmentId, SubnetId
from netfw.model.values.json_document import JsonDocument

RecordedChange = Network | Subnet | Port
"""The resources whose changes drivers receive."""
HOST = "host-1"


def _id(name: str) -> UUID:
    return uuid5(NAMESPACE_DNS, name)


def segment(provider: Provider) -> Segment:
    """Return a segment of the network with this encapsulation."""
    return Segment(id=SegmentId(_id(str(provider))), network_id=NETWORK.id, provider=provider)


VXLAN = Provider(network_type=NetworkType.VXLAN, segmentation_id=77)
VLAN = Provider(network_type=NetworkType.VLAN, physical_network="physnet1", segmentation_id=101)
NETWORK = Network(
    id=NetworkId(_id("network")), name="blue", segments=(VXLAN, VLAN), mtu=1450, revision=1
)
SEGMENTS = segment(VXLAN), segment(VLAN)
EVERY_TYPE = tuple(
    segment(provider)
    for provider in (
        Provider(network_type=NetworkType.LOCAL),
        Provider(network_type=NetworkType.FLAT, physical_network="physnet1"),
        VLAN,
        VXLAN,
        Provider(network_type=NetworkType.GRE, segmentation_id=5),
        Provider(network_type=NetworkType.GENEVE, segmentation_id=5),
    )
)
SUBNET = Subnet(
    id=SubnetId(_id("subnet")),
    network_id=NETWORK.id,
    cidr="192.0.2.0/24",
    gateway="192.0.2.1",
    allocation_pools=[AllocationPool(start="192.0.2.2", end="192.0.2.254")],
    revision=1,
)
PORT = Port(
    id=PortId(_id("port")),
    network_id=NETWORK.id,
    mac="fa:16:3e:00:00:01",
    fixed_ips=[FixedIp(subnet_id=SUBNET.id, address="192.0.2.10")],
    binding=Binding(host=HOST),
    revision=1,
)
AGENT = Agent(
    id=AgentId(_id("agent")),
    agent_type="Open vSwitch agent",
    binary="netfw-ovs-agent",
    host=HOST,
    alive=True,
    configurations=JsonDocument(
        {"bridge_mappings": {"physnet1": "br-ex"}, "tunnel_types": ["vxlan"], "junk": [1, {}]}
    ),
)


def request(port: Port = PORT, *agents: Agent, segments: tuple[Segment, ...]) -> BindingRequest:
    """Return the request to bind *port* to the host."""
    return BindingRequest(port=port, host=HOST, network=NETWORK, segments=segments, agents=agents)


def change(before: RecordedChange | None, after: RecordedChange | None) -> Change:
    """Return a change of a resource of the network."""
    return Change(before=before, after=after, network=NETWORK, segments=SEGMENTS)


def history(resource: RecordedChange) -> tuple[RecordedChange, RecordedChange, RecordedChange]:
    """Return a resource, and its values after a first and a second change."""
    second = evolve(resource, description="second", revision=2)
    third = evolve(second, description="third", revision=3)
    if isinstance(third, Port):
        bound = evolve(third.binding, vif_type=VifType.OVS.value)
        third = evolve(third, binding=bound, status=Status.ACTIVE, admin_up=False)
    return resource, second, third


HISTORIES = history(NETWORK), history(SUBNET), history(PORT)
"""Histories in the order in which the resources are created."""
