"""A small cloud for the tests of the DHCP agent, and an agent whose loop the test turns."""

import time
from ipaddress import ip_address
from uuid import UUID

from netfw.agents.common.loop import Intervals, Loop
from netfw.agents.common.retry_queue import RetryBackoff
from netfw.agents.dhcp.agent import DhcpAgent, DhcpAgentConfig
from netfw.agents.dhcp.metadata_proxy import MetadataPolicy
from netfw.drivers.subscription import Service
from netfw.errors import BackendUnavailable
from netfw.model.binding import Binding
from netfw.model.ids import NetworkId, PortId, SubnetId
from netfw.model.network import Network
from netfw.model.port import FixedIp, Port
from netfw.model.resource import ref
from netfw.model.subnet import Subnet
from netfw.state.memory_source import Assignment, MemorySource
from netfw.testing.fakes.dhcp import FakeDhcp
from netfw.testing.fakes.metadata import FakeMetadata

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
    """A router's interface."""
    owner = {"device_owner": "network:router_interface", "device_id": str(UUID(int=router))}
    return port(number, of, **{**owner, **kwargs})


def server_port(number, of, host=THERE, **kwargs):
    """The port of a DHCP server."""
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


class FakeClock:
    """A clock that the test moves."""

    def __init__(self):
        self.time = 1000.0

    def now(self):
        return self.time


class ShyAnswers(MemorySource):
    """A source in memory that can be away, and counts what it is asked."""

    away = False

    def __init__(self, *items):
        super().__init__(*items)
        self.asked = []

    def request(self, request):
        self.asked.append(request)
        if self.away:
            raise BackendUnavailable("the source does not answer")
        return super().request(request)


class World:
    """An agent on drivers in memory."""

    def __init__(self, *items, rules=None, **settings):
        self.source = ShyAnswers(*items)
        self.dhcp = FakeDhcp()
        self.metadata = FakeMetadata(self.dhcp)
        self.machine = self.dhcp.machine
        self.clock = FakeClock()
        self.settings = {"metadata": rules or MetadataPolicy(), "patience": 5.0, **settings}
        self.begin()

    def begin(self):
        """Start an agent, where one was killed before."""
        for machine in (self.machine, self.metadata.machine):
            machine.sinks.clear()
        settings = DhcpAgentConfig(host=HERE, **self.settings)
        self.agent = DhcpAgent(settings, self.source, self.dhcp, metadata=self.metadata)
        timing = Intervals(report=0, audit=0, pull=0, pauses=RetryBackoff(1.0, 8.0))
        self.loop = Loop(self.source, self.agent, lambda: timing, clock=self.clock)
        self.agent.watch(self.loop._events.event)
        self.source.watch(self.agent.subscription, self.loop.notify)

    def turn(self, after=0.0):
        """Let time pass, and the loop do what is due."""
        self.clock.time += after
        self.loop.turn()
        return self.loop.status

    def until(self, condition, pace=0.0):
        """Turn the loop whenever it has news, until *condition* of its status holds."""
        deadline = time.monotonic() + 10
        status = self.turn()
        while not condition(status):
            assert time.monotonic() < deadline, status
            self.loop._events.ready.wait(0.05)
            status = self.turn(pace)
        return status

    def ready(self, pace=0.0):
        """Have all be as it should, and everything heard of it."""
        return self.until(
            lambda status: status.ready and not self.loop._events.ready.is_set(), pace
        )

    def until_called(self, calls):
        """Wait until the driver was called so many times."""
        deadline = time.monotonic() + 10
        while len(self.dhcp.calls) < calls:
            assert time.monotonic() < deadline, self.dhcp.calls
            time.sleep(0.01)

    def served(self):
        """Networks that are served, by number, with the numbers of their ports' addresses."""
        return {
            id.int: {int(str(each.fixed_ips[0].address).rpartition(".")[2]) for each in
                     self.dhcp.ports(id)}
            for id in self.dhcp.networks()
        }  # fmt: skip

    def status_of(self, port):
        report = self.source.status(ref(port), Service.DHCP)
        return None if report is None else report.status

    def asked(self, kind):
        return [request for request in self.source.asked if isinstance(request, kind)]
