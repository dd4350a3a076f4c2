"""A distributed router and a source that makes ports of agent gateways, for tests."""

import threading
from contextlib import contextmanager
from uuid import UUID

from attrs import evolve

from netfw.agents.l3.agent_mode import AgentMode
from netfw.agents.l3.desired import DesiredL3
from netfw.agents.l3.extensions import RouterExtensions
from netfw.agents.l3.resource_index import L3ResourceIndex
from netfw.agents.l3.router_parts import L3HostContext
from netfw.drivers.values.agent_requests import EnsureGatewayPort, ReleaseGatewayPort
from netfw.errors import BackendUnavailable
from netfw.model.binding import Binding
from netfw.model.port import FixedIp, Port
from netfw.model.resource import ref
from netfw.model.values.device_owner import DeviceOwner
from netfw.model.values.ids import PortId
from tests.unit.agents.common.jobs.job_environment import RecordingSource
from tests.unit.agents.l2.environment import learn
from tests.unit.agents.l3.environment import (
    BLUE,
    BLUE_SUBNET,
    EDGE,
    EDGE_BLUE,
    EDGE_OUT,
    HERE,
    INNER,
    INNER_RED,
    OUTSIDE,
    OUTSIDE_SUBNET,
    RED,
    RED_SUBNET,
    THERE,
    L3Environment,
    floating_ip,
    router_port,
)

DVR = evolve(EDGE, distributed=True, revision=2)
DVR_BLUE = evolve(
    EDGE_BLUE, device_owner=DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED, binding=Binding()
)
OUT_THERE, OUT_HERE = (evolve(EDGE_OUT, binding=Binding(host=host)) for host in (THERE, HERE))
SG_THERE, SG_HERE = (
    evolve(
        router_port(EDGE, BLUE_SUBNET, 5, DeviceOwner.ROUTER_CENTRALIZED_SNAT),
        id=PortId(UUID(int=5)),
        binding=Binding(host=host),
    )
    for host in (THERE, HERE)
)
NETWORKS = (BLUE, RED, OUTSIDE, BLUE_SUBNET, RED_SUBNET, OUTSIDE_SUBNET)
ROUTER = (*NETWORKS, DVR, DVR_BLUE)
ELSEWHERE = (*ROUTER, OUT_THERE, SG_THERE)
"""The router, whose central part is on another host."""
CENTRAL = (*ROUTER, OUT_HERE, SG_HERE)
"""The router, whose central part is on this host."""
PLAIN = (INNER, INNER_RED)
LOCAL_ONE = floating_ip(20, DVR, host=HERE)
LOCAL_TWO = floating_ip(21, DVR, "10.1.0.12", host=HERE)
CENTRAL_ONE = floating_ip(22, DVR, "10.1.0.13")
REMOTE_ONE = floating_ip(23, DVR, "10.1.0.14", host=THERE)


def instance(number, host, on=BLUE_SUBNET, **binding):
    """Return the port of an instance on a host."""
    address = on.cidr[number]
    return Port(
        id=PortId(UUID(int=800 + number)), network_id=on.network_id, mac=f"fa:16:3e:aa:00:{number}",
        fixed_ips=(FixedIp(subnet_id=on.id, address=address),), device_owner="compute:nova",
        binding=Binding(host=host, **binding), revision=1,
    )  # fmt: skip


def agent_gateway_port(host=HERE, number=40):
    """Return the port of a host on the external network."""
    address = FixedIp(subnet_id=OUTSIDE_SUBNET.id, address=OUTSIDE_SUBNET.cidr[number])
    return Port(
        id=PortId(UUID(int=900 + number)), network_id=OUTSIDE.id, mac="fa:16:3e:bb:00:01",
        fixed_ips=(address,), device_owner=DeviceOwner.FLOATING_IP_AGENT_GATEWAY,
        binding=Binding(host=host), revision=1,
    )  # fmt: skip


def desired(*resources, **context):
    """Return the desired state of a host from resources."""
    made = DesiredL3(make_context(**context), L3ResourceIndex(), RouterExtensions([]))
    learn(made, resources)
    return made


def make_context(agent_mode="dvr", **context):
    return L3HostContext(host=HERE, agent_mode=AgentMode(agent_mode), **context)


class GatewaySource(RecordingSource):
    """A source that makes and removes ports of agent gateways; it can be slow."""

    def __init__(self, *items):
        super().__init__(*items)
        self.gate = threading.Event()
        """Closed by a test: requests for ports take long."""
        self.gate.set()
        self.requested = threading.Event()
        self.refuses = False
        self.refusal = None

    def request(self, request):
        if not isinstance(request, EnsureGatewayPort | ReleaseGatewayPort):
            return super().request(request)
        self.asked.append(request)
        self.requested.set()
        assert self.gate.wait(60), "a test forgot to open the gate"
        if self.refuses:
            raise BackendUnavailable("the source does not answer")
        if self.refusal is not None:
            raise self.refusal
        port = agent_gateway_port(request.host)
        if isinstance(request, ReleaseGatewayPort):
            self.remove(ref(port))
            return None
        self.put(port)
        return port


@contextmanager
def distributed_environments():
    """Yield a function that makes environments with the resources of a source; end their agents."""
    made = []

    def make(*items, **options):
        source = GatewaySource(*items)
        made.append(L3Environment(source=source, **{"agent_mode": "dvr", **options}))
        return made[-1]

    yield make
    for each in made:
        each.source.gate.set()
        each.agent.close()
