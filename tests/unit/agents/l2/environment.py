"""A small cloud for the tests of the L2 agent: two networks, two hosts, ports by number."""

from ipaddress import IPv4Address, ip_address
from uuid import UUID

from netfw.drivers.values.switch_values import Endpoint, SwitchFacts
from netfw.model.agent import Agent
from netfw.model.binding import Binding
from netfw.model.ids import AgentId, NetworkId, PortId, SegmentId, SubnetId
from netfw.model.json_document import JsonDocument
from netfw.model.network import Network
from netfw.model.port import FixedIp, Port
from netfw.model.resource import ref
from netfw.model.segment import NetworkType, Provider, Segment

HERE, THERE, ELSEWHERE = "here", "there", "elsewhere"
VXLAN = NetworkType.VXLAN
OWN = IPv4Address("192.0.2.1")
FACTS = SwitchFacts(
    physical_networks=frozenset({"physnet1"}),
    mappings={"physnet1": "br-ex"},
    endpoints=frozenset({Endpoint(VXLAN, OWN)}),
    datapath_type="netdev",
    bridge="br-int",
)


def learn(desired, put=(), drop=()):
    """Store resources in the index of *desired*, and apply the changes."""
    staged = {**dict.fromkeys(drop), **{ref(resource): resource for resource in put}}
    desired.apply(desired._index.apply(staged))


def uuid(number):
    return UUID(int=number)


def network(number=1, **kwargs):
    return Network(id=NetworkId(uuid(number)), revision=1, **kwargs)


def segment(of, type=VXLAN, number=None, physical=None):
    provider = Provider(
        network_type=type,
        segmentation_id=100 + of.id.int if number is None and type is VXLAN else number,
        physical_network=physical,
    )
    return Segment(id=SegmentId(uuid(50 + of.id.int)), network_id=of.id, provider=provider)


def port(number, of, host=HERE, **kwargs):
    fixed = FixedIp(subnet_id=SubnetId(uuid(70)), address=ip_address(f"10.0.0.{number}"))
    given = {
        "fixed_ips": (fixed,),
        "revision": 1,
        "port_security": False,
        "mac": f"fa:16:3e:00:00:{number:02x}",
        **kwargs,
    }
    return Port(
        id=PortId(uuid(100 + number)), network_id=of.id, binding=Binding(host=host), **given
    )


def agent(host, address, types=("vxlan",), number=80, revision=1):
    return Agent(
        id=AgentId(uuid(number)),
        agent_type="Open vSwitch agent",
        binary="netfw-ovs-agent",
        host=host,
        revision=revision,
        configurations=JsonDocument({"tunneling_ip": address, "tunnel_types": list(types)}),
    )


NET = network(1, mtu=1450)
OTHER = network(2)
SEGMENT, OTHER_SEGMENT = segment(NET), segment(OTHER)
AGENT_THERE = agent(THERE, "192.0.2.2")
