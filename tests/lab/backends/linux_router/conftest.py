"""Fixtures of the tests with routers in a lab."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from attrs import evolve

from netfw.drivers.router import RouterDriver
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.ids import NetworkId, PortId, RouterId
from netfw.testing.conformance.router.factories import Site, make_net, make_site
from netfw.testing.conformance.router.lab_machine import LabMachine
from netfw.testing.conformance.router.services import advertising
from tests.lab.backends.linux_router.environment import LinuxRouterEnvironment, MakeDriver
from tests.lab.backends.linux_router.ha_instances import Pair, ha_port, instance


@pytest.fixture(scope="module")
def environment() -> Iterator[LinuxRouterEnvironment]:
    with LinuxRouterEnvironment() as made:
        yield made


@pytest.fixture
def make_driver(environment: LinuxRouterEnvironment) -> Iterator[MakeDriver]:
    made: list[RouterDriver] = []

    def make() -> RouterDriver:
        while made:
            environment.killed(made.pop())
        made.append(environment.make_driver())
        return made[-1]

    yield make
    assert make().gc(()).ok
    environment.killed(made.pop())
    environment.dismiss()


@pytest.fixture
def site(environment: LinuxRouterEnvironment) -> Site:
    made = make_site()
    environment.admit(made.ports)
    return made


@pytest.fixture
def pair(environment: LinuxRouterEnvironment) -> Pair:
    """Return two instances of a highly available router.

    They are two routers of one driver, on the same networks, with the same MAC addresses and the
    same virtual router id: what two hosts have.
    """
    first = advertising(make_site(make_net(1)), Ipv6Mode.SLAAC)
    second = evolve(first, router=RouterId(uuid4())).with_full(
        interfaces=tuple(evolve(port, id=PortId(uuid4())) for port in first.full.interfaces),
        gateway=evolve(first.gateway, port=evolve(first.gateway.port, id=PortId(uuid4()))),
    )
    network = NetworkId(uuid4())
    pair = instance(first, network, 1), instance(second, network, 2)
    for site in pair:
        environment.admit([*site.ports, ha_port(site)])
    return pair


@pytest.fixture
def inside(environment: LinuxRouterEnvironment, pair: Pair) -> LabMachine:
    """Return an instance that reaches the outside by the router."""
    site = pair[0]
    net, external = site.nets[0], site.external
    gateways = [external.address(10, version) for version in (4, 6)]
    environment.machine(external.id, external.interfaces(1), gateways)
    machine = environment.machine(net.id, net.interfaces(9), net.gateways())
    assert isinstance(machine, LabMachine)
    return machine
