"""A small cloud for the tests of the DHCP agent, and an agent whose loop the test turns."""

from ipaddress import ip_address
from uuid import UUID

from netfw.agents.dhcp.agent import DhcpAgent, DhcpAgentConfig
from netfw.agents.dhcp.metadata_proxy import MetadataPolicy
from netfw.drivers.values.subscription import Service
from netfw.model.binding import Binding
from netfw.model.network import Network
from netfw.model.port import FixedIp, Port
from netfw.model.resource import ref
from netfw.model.subnet import Subnet
from netfw.model.values.ids import NetworkId, PortId, SubnetId
from netfw.state.memory_source import Assignment
from netfw.testing.fakes.dhcp import FakeDhcp
from netfw.testing.fakes.metadata import FakeMetadata
from tests.unit.agents.common.jobs.job_environment import JobAgentEnvironment

HERE, THERE = "here", "there"


def network(number=1, **kwargs):
    return Network(id=NetworkId(UUID(int=number)), revision=1, **kwargs)


def subnet(of, number=None, **kwargs):
    at = of.id.int if number is None else number
    given = {"cidr": f"10.{at}.0.0/24", "gateway": f"10.{at}.0.1", "revision": 1, **kwargs}
    return Subnet(id=SubnetId(UUID(int=50 + at)), network_id=of.id, **given)


def port(number, of, on=None, **kwargs):
    on = subnet(of) if on is None else on
    address = ip_address(int(on.cidr.network_address) + number)
    given = {
        "fixed_ips": (FixedIp(subnet_id=on.id, address=address),),
        "mac": f"fa:16:3e:00:{of.id.int:02x}:{number:02x}",
        "revision": 1,
        **kwargs,
    }
    return Port(id=PortId(UUID(int=1000 * of.id.int + number)), network_id=of.id, **given)


def router_interface(number, of, router=9, **kwargs):
    """Return a port that is an interface of a router."""
    owner = {"device_owner": "network:router_interface", "device_id": str(UUID(int=router))}
    return port(number, of, **{**owner, **kwargs})


def server_port(number, of, host=THERE, **kwargs):
    """Return the port of a DHCP server."""
    given = {
        "device_owner": "network:dhcp", "device_id": f"dhcp-{host}",
        "binding": Binding(host=host), **kwargs,
    }  # fmt: skip
    return port(number, of, **given)


def assigned(of, host=HERE):
    return Assignment(Service.DHCP, host, ref(of))


NET, OTHER = network(1), network(2)
SUBNET, OTHER_SUBNET = subnet(NET), subnet(OTHER)
CLOUD = (NET, SUBNET, assigned(NET), OTHER, OTHER_SUBNET, assigned(OTHER))


class DhcpAgentEnvironment(JobAgentEnvironment):
    """A DHCP agent on drivers in memory."""

    def __init__(self, *items, rules=None, **settings):
        super().__init__(*items)
        self.dhcp = FakeDhcp()
        self.metadata = FakeMetadata(self.dhcp)
        self.machine = self.dhcp.machine
        self.settings = {"metadata": rules or MetadataPolicy(), "wait_timeout": 5.0, **settings}
        self.begin()

    def drivers(self):
        return self.dhcp, self.metadata

    def make_agent(self):
        settings = DhcpAgentConfig(host=HERE, **self.settings)
        return DhcpAgent(settings, self.source, self.dhcp, metadata=self.metadata)

    def until_called(self, calls):
        super().until_called(self.dhcp, calls)

    def served(self):
        """Return the last bytes of the ports' addresses of each served network, by its number."""
        return {
            id.int: {int(str(each.fixed_ips[0].address).rpartition(".")[2]) for each in
                     self.dhcp.ports(id)}
            for id in self.dhcp.networks()
        }  # fmt: skip

    def status_of(self, port):
        report = self.source.status(ref(port), Service.DHCP)
        return None if report is None else report.status


ONE, TWO, THREE = port(11, NET), port(12, NET), port(11, OTHER)
ISOLATED = MetadataPolicy(isolated=True)


def make_environment(*more, **kwargs):
    env = DhcpAgentEnvironment(*CLOUD, ONE, TWO, THREE, *more, **kwargs)
    env.ready()
    return env
