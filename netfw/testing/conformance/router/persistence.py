"""Tests of restarts, statuses and what a driver does not support."""

from __future__ import annotations

from uuid import uuid4

import pytest
from attrs import evolve

from netfw.drivers.router import RouterCapability, RouterDriver
from netfw.drivers.values.keys import AgentGatewayKey
from netfw.drivers.values.router_values import (
    AgentGateway,
    CentralRouter,
    HighAvailability,
    LocalRouter,
    RouterDriverKey,
    RouterDriverValue,
    RouterPart,
    RouterState,
)
from netfw.errors import BackendUnavailable, InvalidInput, NotFound, NotSupported
from netfw.model.values.ids import RouterId
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.router.case import MakeDriver, RouterCase
from netfw.testing.conformance.router.environment import TCP
from netfw.testing.conformance.router.factories import make_net, make_site


class RouterPersistenceConformance(RouterCase):
    """Routers outlive the driver, and its status says what the host has."""

    @proves(RouterDriver, 4)
    def test_a_restart_interrupts_nothing(self, make_driver: MakeDriver) -> None:
        site = make_site()
        floating = site.floating(50, site.nets[0].address(20))
        self.bring(make_driver(), site, floating)
        one, other, outside = self.instance(site), self.instance(site, 1), self.outside(site)
        self.arrives(outside, floating.address)
        self.arrives(other, site.external.address(1))
        streams = (
            self.connected(outside, floating.address, 80),
            self.connected(other, site.external.address(1), 80),
        )
        traffic = outside.traffic(floating.address), other.traffic(site.external.address(1))
        for complete in (True, False):
            outcome = make_driver().converge(Update(put=site.wanted(floating), complete=complete))
            assert outcome.ok, str(outcome)
        assert [each.stop() for each in traffic] == [0, 0]
        for stream in streams:
            assert stream.stays_alive()
            stream.close()
        assert self.arrives(one, site.external.address(1), TCP, 80).source == floating.address

    @proves(RouterDriver, 4)
    def test_one_more_floating_ip_disturbs_no_other(self, driver: RouterDriver) -> None:
        site = make_site()
        floating = site.floating(50, site.nets[0].address(20))
        self.bring(driver, site, floating)
        self.instance(site)
        outside = self.outside(site)
        self.arrives(outside, floating.address)
        traffic = outside.traffic(floating.address)
        second = site.floating(51, site.nets[1].address(20))
        for _ in range(3):
            self.bring(driver, site, floating, second)
            self.drop(driver, second)
        assert traffic.stop() == 0

    @proves(RouterDriver, 6)
    def test_status_names_what_the_host_has(self, driver: RouterDriver) -> None:
        site = make_site()
        self.bring(driver, site)
        status = driver.status(site.router)
        assert status.devices.keys() == {port.id for port in site.ports}
        assert status.role is None
        namespace = driver.namespace_of(site.router, RouterPart.FULL)
        assert status.namespaces == ({} if namespace is None else {RouterPart.FULL: namespace})
        other = driver.namespace_of(RouterId(uuid4()), RouterPart.FULL)
        assert namespace is None or other != namespace

    @proves_raise(RouterDriver, "status", NotFound)
    def test_the_status_of_an_unknown_router_is_not_found(self, driver: RouterDriver) -> None:
        with pytest.raises(NotFound):
            driver.status(RouterId(uuid4()))

    @proves_raise(RouterDriver, "status", BackendUnavailable)
    def test_status_raises_when_the_backend_is_unreachable(self, driver: RouterDriver) -> None:
        site = make_site()
        self.bring(driver, site)
        with self.environment.outage(), pytest.raises(BackendUnavailable):
            driver.status(site.router)

    @proves(RouterDriver, 9)
    def test_what_the_driver_does_not_declare_is_refused(self, driver: RouterDriver) -> None:
        declared = driver.describe().capabilities
        site, plain = make_site(), make_site(make_net(5))
        wanted: dict[RouterDriverKey, RouterDriverValue] = {}
        if RouterCapability.DISTRIBUTED not in declared:
            local = RouterState(local=LocalRouter(interfaces=site.full.interfaces))
            gateway = AgentGateway(port=site.external.port(90))
            wanted = {site.key: local, AgentGatewayKey(site.external.id): gateway}
            central = make_site(make_net(6))
            parts = CentralRouter(gateway=central.gateway)
            wanted[central.key] = RouterState(central=parts)
            for number, part in ((50, RouterPart.LOCAL), (51, RouterPart.CENTRAL)):
                floating = site.floating(number, site.nets[0].address(20))
                wanted[floating.key] = evolve(floating.value, part=part)
        if RouterCapability.HA not in declared:
            ready = make_site(make_net(7))
            ha = HighAvailability(port=make_net(8).port(), vrid=1)
            wanted[ready.key] = evolve(ready.state, full=evolve(ready.full, ha=ha))
        if not wanted:
            pytest.skip("the driver declares every capability")
        before = self.environment.dump_state()
        outcome = driver.converge(Update(put=wanted))
        assert outcome.failed.keys() == wanted.keys(), str(outcome)
        assert all(isinstance(error, NotSupported) for error in outcome.failed.values())
        assert self.environment.dump_state() == before
        self.environment.admit(plain.ports)
        outcome = driver.converge(Update(put={**wanted, plain.key: plain.state}))
        assert outcome.done == {plain.key}

    @proves(RouterDriver, 9)
    def test_a_value_that_does_not_fit_its_key_is_refused(self, driver: RouterDriver) -> None:
        site, other = make_site(), make_site(make_net(5))
        floating = site.floating(50, site.nets[0].address(20))
        self.environment.admit(other.ports)
        outcome = driver.converge(Update(put={site.key: floating.value, other.key: other.state}))
        assert isinstance(outcome.failed.get(site.key), InvalidInput), str(outcome)
        assert outcome.done == {other.key}
