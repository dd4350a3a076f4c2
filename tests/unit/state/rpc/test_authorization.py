"""What callers with the credentials of one host or of some services may request."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.transport import Caller
from netfw.drivers.values.agent_requests import (
    EnabledServices,
    EnsureDhcpPort,
    EnsureGatewayPort,
    FindPorts,
    ReleaseGatewayPort,
    ResolveDevices,
    SetPrefix,
)
from netfw.drivers.values.reports import Heartbeat, RoleReport
from netfw.drivers.values.subscription import AGENT_TYPES, Service, Subscription
from netfw.errors import Conflict, NotFound, RequestError
from netfw.model.resource import Kind, Ref, ref
from netfw.model.router import HaRole
from netfw.model.values.ids import RouterId
from netfw.state.dependencies import Assignment, Item
from netfw.state.memory_source import MemorySource
from netfw.state.rpc import RemoteSource, StateRpcServer
from netfw.state.rpc.authorization import REQUESTERS
from netfw.state.rpc.codecs import REQUEST_CODECS
from netfw.testing.conformance.state_source import distributed_routers as routing
from netfw.testing.conformance.state_source import samples
from netfw.testing.fakes.transport import FakeBroker

pytestmark = pytest.mark.spec("RPC-06")

L3_HERE = Subscription(samples.HERE, frozenset({Service.L3}))
CLOUD = (*samples.BACKGROUND, samples.WEB_HERE, samples.NEIGHBOUR)


@pytest.fixture
def source() -> MemorySource:
    return MemorySource(*CLOUD)


@pytest.fixture
def wire(source: MemorySource) -> FakeBroker:
    network = FakeBroker()
    StateRpcServer(source, network.transport()).open()
    return network


def client(wire: FakeBroker, *services: Service, host: str = samples.HERE) -> RemoteSource:
    caller = Caller("agent", host, frozenset(services) if services else None)
    return RemoteSource(wire.transport(caller), timeout=60)


def test_every_request_has_the_services_that_send_it() -> None:
    assert {codec.request.cls for codec in REQUEST_CODECS} == set(REQUESTERS)
    assert all(REQUESTERS.values())


@pytest.mark.parametrize("agent_type", [*AGENT_TYPES, "Vendor agent"])
@pytest.mark.parametrize("service", list(Service))
def test_heartbeats_are_those_of_the_services_of_the_caller(
    wire: FakeBroker, agent_type: str, service: Service
) -> None:
    agent = evolve(samples.AGENT_THERE, host=samples.HERE, agent_type=agent_type)
    report = [Heartbeat(agent=agent)]
    if AGENT_TYPES.get(agent_type, Service.L2) is service:
        client(wire, service).report(report)
    else:
        with pytest.raises(RequestError, match=f"may speak for service {service} and not for"):
            client(wire, service).report(report)


@pytest.mark.parametrize("service", list(Service))
def test_roles_are_those_of_the_l3_service_whatever_the_report_names(
    wire: FakeBroker, service: Service
) -> None:
    router = Ref(Kind.ROUTER, RouterId(UUID(int=1)))
    report = [
        RoleReport(ref=router, revision=1, host=samples.HERE, role=HaRole.ACTIVE, service=service)
    ]
    client(wire, Service.L3).report(report)
    if service is not Service.L3:
        with pytest.raises(RequestError, match=f"may speak for service {service} and not for"):
            client(wire, service).report(report)


@pytest.mark.parametrize("service", list(Service))
def test_subscriptions_are_those_of_the_services_of_the_caller(
    wire: FakeBroker, service: Service
) -> None:
    both = Subscription(samples.HERE, frozenset({Service.L2, service}))
    next(client(wire, Service.L2, service).snapshot(both))
    if service is not Service.L2:
        with pytest.raises(RequestError, match="may speak for service l2 and not for"):
            next(client(wire, Service.L2).snapshot(both))
    client(wire, service).request(EnabledServices())


def test_refusals_name_services_as_token_files_do(wire: FakeBroker) -> None:
    agent = client(wire, Service.L2, Service.POPULATION)
    refusal = "may speak for service l2 and not for service dhcp: name the service in the line of"
    with pytest.raises(RequestError, match=refusal):
        next(agent.snapshot(Subscription(samples.HERE, frozenset({Service.DHCP}))))


def refused(source: RemoteSource, request: Any) -> None:
    with pytest.raises(NotFound, match="host here does not serve network"):
        source.request(request)


def test_networks_are_answered_to_hosts_that_serve_them(
    wire: FakeBroker, source: MemorySource
) -> None:
    here, anybody = client(wire), RemoteSource(wire.transport(), timeout=60)
    network, subnets = samples.NET.id, frozenset({samples.SUBNET.id})
    look_up = FindPorts(address=samples.NEIGHBOUR.fixed_ips[0].address, network=network)
    make = EnsureDhcpPort(network=network, host=samples.HERE, subnets=subnets)
    for request in (look_up, make, EnsureGatewayPort(network=network, host=samples.HERE)):
        refused(here, request)
    assert len(anybody.request(look_up)) == 1
    source.put(samples.DHCP_ASSIGNMENT)
    assert len(here.request(look_up)) == 1
    assert here.request(make).binding.host == samples.HERE


@pytest.mark.spec("L3-32")
def test_prefixes_are_taken_from_hosts_that_run_the_router(
    wire: FakeBroker, source: MemorySource
) -> None:
    request = SetPrefix(router=samples.ROUTER.id, subnet=samples.SUBNET.id, prefix=None)
    with pytest.raises(NotFound, match="host here does not serve router"):
        client(wire).request(request)
    with pytest.raises(Conflict, match="not delegated"):
        RemoteSource(wire.transport(), timeout=60).request(request)


@pytest.mark.spec("L3-32")
def test_prefixes_are_not_taken_from_hosts_with_a_local_part_alone() -> None:
    # A hostile compute host reads the subnet, and must not renumber it.
    source, wire = MemorySource(*routing.EVERYTHING, samples.WEB_HERE), FakeBroker()
    StateRpcServer(source, wire.transport()).open()
    request = SetPrefix(router=routing.ROUTER.id, subnet=samples.SUBNET.id, prefix=None)
    reached = {ref(each) for page in client(wire).snapshot(L3_HERE) for each in page.put}
    assert ref(samples.SUBNET) in reached, "its local part reads the subnet"
    with pytest.raises(NotFound, match="host here does not serve router"):
        client(wire).request(request)
    with pytest.raises(Conflict, match="not delegated"):  # the central part may
        client(wire, host=routing.CENTRAL).request(request)


def test_devices_are_resolved_for_the_host_that_has_them(wire: FakeBroker) -> None:
    wanted = ResolveDevices(ports=frozenset({samples.WEB_HERE.id, samples.NEIGHBOUR.id}))
    assert [ref(each) for each in client(wire).request(wanted)] == [ref(samples.WEB_HERE)]
    assert len(RemoteSource(wire.transport(), timeout=60).request(wanted)) == 2


@pytest.mark.spec("RPC-08")
@pytest.mark.parametrize(
    "reason",
    [
        (routing.FLOATING_HERE,),
        (samples.WEB_HERE,),
        (routing.PREPARED_HERE,),
        (Assignment(Service.L3, samples.HERE, ref(routing.ROUTER)),),
    ],
    ids=["floating IP", "instance", "prepared instance", "central part"],
)
def test_gateway_ports_are_answered_to_hosts_of_a_router_with_that_gateway(
    reason: tuple[Item, ...],
) -> None:
    source, wire = MemorySource(*routing.EVERYTHING), FakeBroker()
    StateRpcServer(source, wire.transport()).open()
    here, there = client(wire), client(wire, host=samples.THERE)
    request = EnsureGatewayPort(network=routing.EXTERNAL.id, host=samples.HERE)
    refused(here, request)
    source.put(*reason)
    assert here.request(request).binding.host == samples.HERE
    with pytest.raises(RequestError, match="may speak for host there and not for host here"):
        there.request(request)


@pytest.mark.spec("RPC-08")
def test_gateway_ports_are_released_by_their_own_host(wire: FakeBroker) -> None:
    release = ReleaseGatewayPort(network=samples.NET.id, host=samples.HERE)
    assert client(wire).request(release) is None
    assert client(wire, Service.L3).request(release) is None
    with pytest.raises(RequestError, match="may speak for host there and not for host here"):
        client(wire, host=samples.THERE).request(release)
    with pytest.raises(RequestError, match="may speak for service l2 and not for service l3"):
        client(wire, Service.L2).request(release)
