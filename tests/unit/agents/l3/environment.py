"""A small cloud with routers for the tests of the L3 agent."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any
from uuid import UUID

from netfw.agents.l3.agent import L3Agent, L3AgentConfig
from netfw.drivers.values.subscription import Service
from netfw.model.binding import Binding
from netfw.model.floating_ip import FloatingIp
from netfw.model.network import Network
from netfw.model.port import FixedIp, Port
from netfw.model.resource import Resource, ref
from netfw.model.router import ExternalGateway, Router
from netfw.model.subnet import Subnet
from netfw.model.values.device_owner import DeviceOwner
from netfw.model.values.ids import FloatingIpId, NetworkId, PortId, RouterId, SubnetId
from netfw.state.memory_source import Assignment
from netfw.testing.fakes.interface import FakeInterface
from netfw.testing.fakes.metadata import FakeMetadata
from netfw.testing.fakes.router import FakeRouter
from tests.unit.agents.common.jobs.job_environment import JobAgentEnvironment

HERE, THERE = "here", "there"


def network(number, **kwargs):
    return Network(id=NetworkId(UUID(int=number)), revision=1, **kwargs)


def subnet(of, number=None, **kwargs):
    at = of.id.int if number is None else number
    given = {"cidr": f"10.{at}.0.0/24", "gateway": f"10.{at}.0.1", "revision": 1, **kwargs}
    return Subnet(id=SubnetId(UUID(int=50 + at)), network_id=of.id, **given)


def router(number, gateway=None, **kwargs):
    given = {"revision": 1, **kwargs}
    if gateway is not None:
        given["gateway"] = ExternalGateway(network_id=gateway.id)
    return Router(id=RouterId(UUID(int=9000 + number)), **given)


def router_port(of, on, host_part=1, owner=DeviceOwner.ROUTER_INTERFACE, **kwargs):
    """Return the port of a router on a subnet."""
    address = ip_address(int(on.cidr.network_address) + host_part)
    id = PortId(UUID(int=100_000 * of.id.int + on.id.int))
    given = {
        "fixed_ips": (FixedIp(subnet_id=on.id, address=address),),
        "mac": f"fa:16:3e:{of.id.int % 256:02x}:{on.id.int:02x}:{host_part:02x}",
        "device_owner": owner, "device_id": str(of.id), "binding": Binding(host=HERE),
        "revision": 1, **kwargs,
    }  # fmt: skip
    return Port(id=id, network_id=on.network_id, **given)


def gateway_port(of, on, host_part=10, **kwargs):
    return router_port(of, on, host_part, DeviceOwner.ROUTER_GATEWAY, **kwargs)


def floating_ip(number, of, fixed="10.1.0.11", **kwargs):
    given = {
        "address": f"10.9.0.{number}", "network_id": OUTSIDE.id, "router_id": of.id,
        "port_id": PortId(UUID(int=1)), "fixed_address": fixed, "revision": 1, **kwargs,
    }  # fmt: skip
    return FloatingIp(id=FloatingIpId(UUID(int=7000 + number)), **given)


def assigned(of, host=HERE):
    return Assignment(Service.L3, host, ref(of))


def ha_port(of, host, number, **kwargs):
    """Return the port of a highly available router for one host."""
    given = {
        "fixed_ips": (FixedIp(subnet_id=HA_SUBNET.id, address=f"169.254.192.{number}"),),
        "mac": f"fa:16:3e:00:ff:{number:02x}", "device_owner": DeviceOwner.ROUTER_HA_INTERFACE,
        "device_id": str(of.id), "binding": Binding(host=host), "revision": 1, **kwargs,
    }  # fmt: skip
    id = PortId(UUID(int=100_000 * of.id.int + 1000 + number))
    return Port(id=id, network_id=HA_NETWORK.id, **given)


HA_NETWORK = network(30)
HA_SUBNET = subnet(HA_NETWORK, cidr="169.254.192.0/18", gateway=None)
BLUE, RED, OUTSIDE = network(1, mtu=1400), network(2), network(9, external=True)
BLUE_SUBNET, RED_SUBNET, OUTSIDE_SUBNET = subnet(BLUE), subnet(RED), subnet(OUTSIDE)
EDGE, INNER = router(1, OUTSIDE), router(2)
EDGE_BLUE, EDGE_OUT = router_port(EDGE, BLUE_SUBNET), gateway_port(EDGE, OUTSIDE_SUBNET)
INNER_RED = router_port(INNER, RED_SUBNET)
CLOUD = (
    BLUE, RED, OUTSIDE, BLUE_SUBNET, RED_SUBNET, OUTSIDE_SUBNET,
    EDGE, INNER, EDGE_BLUE, EDGE_OUT, INNER_RED, assigned(EDGE), assigned(INNER),
)  # fmt: skip


class L3Environment(JobAgentEnvironment):
    """An L3 agent on drivers in memory."""

    def __init__(self, *items, extensions=(), directory=None, source=None, **settings):
        super().__init__(*items, source=source)
        self.router = FakeRouter()
        self.metadata = FakeMetadata(self.router)
        self.interface = FakeInterface()
        self.machine = self.router.machine
        self.extensions, self.directory = extensions, directory
        self.settings = {"wait_timeout": 5.0, **settings}
        self.begin()

    def drivers(self):
        return self.router, self.metadata

    def make_agent(self):
        return L3Agent(
            L3AgentConfig(host=HERE, **self.settings), self.source, self.router,
            interface=self.interface, metadata=self.metadata, extensions=self.extensions,
            directory=self.directory, clock=self.clock,
        )  # fmt: skip

    def report(self, resource):
        """Return the last report on a resource, as status and reason."""
        report = self.source.status(ref(resource), Service.L3)
        return None if report is None else (report.status.value, report.reason)


@contextmanager
def environments() -> Iterator[Callable[..., L3Environment]]:
    """Yield a function that makes environments; end their agents."""
    made: list[L3Environment] = []

    def make(*more: Resource, **options: Any) -> L3Environment:
        made.append(L3Environment(*CLOUD, *more, **options))
        return made[-1]

    yield make
    for each in made:
        for gate in each.router.gates.values():
            gate.set()
        each.agent.close()
