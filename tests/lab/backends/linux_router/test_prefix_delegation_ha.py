"""Delegated prefixes of a highly available router on two hosts: its active host has the client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from attrs import define, evolve, field

from netfw.drivers.router import RouterDriver
from netfw.drivers.values.events import Event
from netfw.drivers.values.router_values import PrefixDelegated
from netfw.model.router import HaRole
from netfw.model.values.address import IpNetwork
from netfw.model.values.ids import SubnetId
from netfw.plan import Update
from netfw.testing.conformance.router.environment import RouterEnvironment
from netfw.testing.conformance.router.factories import Site, make_ha_sites, make_net, make_site
from netfw.testing.conformance.router.lab_machine import LabMachine
from netfw.testing.lab.services.prefix_server import PrefixServer
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.linux_router.environment import LinuxRouterEnvironment, MakeDriver
from tests.lab.backends.linux_router.ha_instances import pids

POOL = "2001:db8:1000::/48"


@define(eq=False)
class HaHost:
    """A host of the router, and what its driver reports."""

    environment: RouterEnvironment
    driver: RouterDriver
    site: Site
    prefixes: list[IpNetwork | None] = field(factory=list)

    def start(self) -> None:
        self.environment.admit(self.site.ports)
        self.driver.watch(self._record)
        update = Update(put=self.site.wanted())
        wait_until(lambda: self.driver.converge(update).ok, seconds=60)

    def _record(self, event: Event) -> None:
        if isinstance(event, PrefixDelegated):
            self.prefixes.append(event.prefix)

    @property
    def role(self) -> HaRole | None:
        return self.driver.status(self.site.router).role


@pytest.fixture
def hosts(
    environment: LinuxRouterEnvironment, make_driver: MakeDriver
) -> Iterator[tuple[HaHost, HaHost]]:
    site = make_site(make_net(1))
    (port,) = site.full.interfaces
    delegated = evolve(port, delegated=frozenset({SubnetId(uuid4())}))
    one, two = make_ha_sites(site.with_full(interfaces=(delegated,)), 200, 100)
    far = environment.peer()
    driver = far.make_driver()
    yield HaHost(environment, make_driver(), one), HaHost(far, driver, two)
    assert driver.gc(()).ok
    far.killed(driver)
    far.dismiss()


@pytest.fixture
def server(
    environment: LinuxRouterEnvironment, hosts: tuple[HaHost, HaHost], tmp_path: Path
) -> Iterator[PrefixServer]:
    external = hosts[0].site.external
    provider = environment.machine(external.id, external.interfaces(1))
    assert isinstance(provider, LabMachine)
    made = PrefixServer(provider.instance, str(external.blocks[1]), tmp_path)
    made.start(POOL)
    yield made
    made.stop()


@pytest.mark.services
@pytest.mark.spec("L3-27")
@pytest.mark.usefixtures("server")
def test_the_prefix_and_the_client_follow_the_active_host(hosts: tuple[HaHost, HaHost]) -> None:
    first, second = hosts
    first.start()
    wait_until(lambda: first.role is HaRole.ACTIVE, seconds=60)
    wait_until(lambda: bool(first.prefixes), seconds=60)
    second.start()
    wait_until(lambda: second.role is HaRole.STANDBY, seconds=60)
    clients = pids(first.site, "dhclient")
    assert len(clients) == 1, "the standby has none"
    assert not second.prefixes
    assert first.driver.converge(Update(drop=frozenset({first.site.key}))).ok
    wait_until(lambda: second.role is HaRole.ACTIVE, seconds=60)
    wait_until(lambda: bool(second.prefixes), seconds=60)
    assert second.prefixes == first.prefixes
    assert len(pids(second.site, "dhclient")) == 1
