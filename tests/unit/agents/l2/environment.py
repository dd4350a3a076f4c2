"""A small cloud for the tests of the L2 agent: two networks, two hosts, ports by number."""

from ipaddress import IPv4Address, ip_address, ip_network
from uuid import UUID

from netfw.drivers.base import DriverInfo
from netfw.drivers.l2_extension import L2Extension
from netfw.drivers.values.pipeline_grant import GrantRequest, PipelineHook, TableRequest
from netfw.drivers.values.switch_contribution import SwitchContribution
from netfw.drivers.values.switch_values import (
    Endpoint,
    SwitchFacts,
)
from netfw.flows import Flow, Match
from netfw.model.agent import Agent
from netfw.model.binding import Binding
from netfw.model.network import Network
from netfw.model.port import FixedIp, Port
from netfw.model.resource import ref
from netfw.model.segment import NetworkType, Provider, Segment
from netfw.model.subnet import Subnet
from netfw.model.values.ids import (
    AgentId,
    NetworkId,
    PortId,
    SegmentId,
    SubnetId,
)
from netfw.model.values.json_document import JsonDocument

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


def subnet(of, number, cidr):
    return Subnet(id=SubnetId(uuid(number)), network_id=of.id, cidr=cidr)


def port(number, of, host=HERE, hosts=(), prepared=(), **kwargs):
    fixed = FixedIp(subnet_id=SubnetId(uuid(70)), address=ip_address(f"10.0.0.{number}"))
    given = {
        "fixed_ips": (fixed,),
        "revision": 1,
        "port_security": False,
        "mac": f"fa:16:3e:00:00:{number:02x}",
        **kwargs,
    }
    return Port(
        id=PortId(uuid(100 + number)),
        network_id=of.id,
        binding=Binding(host=host, hosts=hosts, prepared_hosts=prepared),
        **given,
    )


def agent(host, address, types=("vxlan",), number=80, revision=1, **configurations):
    return Agent(
        id=AgentId(uuid(number)),
        agent_type="Open vSwitch agent",
        binary="netfw-ovs-agent",
        host=host,
        revision=revision,
        configurations=JsonDocument(
            {"tunneling_ip": address, "tunnel_types": list(types), **configurations}
        ),
    )


NET = network(1, mtu=1450)
OTHER = network(2)
SEGMENT, OTHER_SEGMENT = segment(NET), segment(OTHER)
AGENT_THERE = agent(THERE, "192.0.2.2")
ONE, TWO = port(1, NET), port(2, NET)


class Marker(L2Extension):
    """Adds a flow to each port, as a test tells it."""

    VERSION = 2

    def __init__(self, owner="marker"):
        self.owner, self.level, self.calls, self.error = owner, 1, [], {}
        self.sink, self.related = None, {}

    @classmethod
    def from_conf(cls, options, host):
        return cls()

    def describe(self):
        return DriverInfo(self.owner)

    def grant_request(self):
        return GrantRequest(
            owner=self.owner, tables=(TableRequest(name="mark", hook=PipelineHook.FROM_PORT),)
        )

    def contribute(self, key, value, grant):
        self.calls.append(key)
        self.related[key] = value.related
        if key in self.error:
            raise self.error[key]
        return self.addition(grant, value.port.name)

    def addition(self, grant, _name=""):
        table = grant.tables["mark"].number
        flow = Flow(table=table, priority=self.level, match=Match(), cookie=grant.cookie)
        return SwitchContribution(owner=self.owner, flows=(flow,))

    def contribute_base(self, grant):
        return SwitchContribution(owner=self.owner)

    def watch(self, sink):
        self.sink = sink


def address_prefix(of):
    return ip_network(str(of.fixed_ips[0].address))
