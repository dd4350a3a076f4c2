"""Packet questions of distributed routers: their parts and agent gateways on one host."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from netfw.drivers.dhcp import METADATA_ADDRESSES
from netfw.drivers.router import RouterCapability, RouterDriver
from netfw.drivers.values.pipeline_grant import GrantRequest
from netfw.drivers.values.router_values import METADATA_PORT, RouterPart
from netfw.model.values.address import IpAddress
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.router.case import FAMILIES, MakeDriver, RouterCase
from netfw.testing.conformance.router.contributions import EXTENSION, drop, forward, of_families
from netfw.testing.conformance.router.distributed_factories import (
    CENTRAL_NUMBER,
    AgentGatewaySite,
    DistributedSite,
    entries,
    make_agent_gateway,
    make_distributed,
)
from netfw.testing.conformance.router.environment import TCP, Machine
from netfw.testing.conformance.router.factories import Floating, RoutedNetwork, make_net, next_mac
from netfw.testing.lab.wait import wait_until

Thing = DistributedSite | AgentGatewaySite | Floating


class RouterDistributedConformance(RouterCase):
    """Local parts, central parts and agent gateways of a host."""

    def put(self, driver: RouterDriver, *things: Thing, **update: Any) -> None:
        """Put *things*; again only what waits until its gateway is wired."""
        ports = [port for each in things if not isinstance(each, Floating) for port in each.ports]
        self.environment.admit(ports)
        outcome = driver.converge(Update(put={each.key: each.value for each in things}, **update))
        assert not outcome.failed, str(outcome)
        self.environment.await_wired(ports)
        rest = {each.key: each.value for each in things if each.key in outcome.waiting}
        wait_until(
            lambda: driver.converge(Update(put=rest)).ok,
            lambda: f"still waiting: {outcome}",
            seconds=self.environment.timeout,
        )

    def remove(self, driver: RouterDriver, *things: Thing) -> None:
        """Drop *things*, and check that they are removed."""
        outcome = driver.converge(Update(drop=frozenset(each.key for each in things)))
        assert outcome.ok, str(outcome)

    def guest(self, net: RoutedNetwork, number: int = 20) -> Machine:
        """Return an instance whose gateway is the router's interface."""
        return self.environment.machine(net.id, net.interfaces(number), net.gateways())

    def outsider(self, site: DistributedSite) -> Machine:
        """Return the next hop of gateways, which reaches IPv6 networks by the central part."""
        external = site.external
        return self.environment.machine(
            external.id, external.interfaces(1), (external.address(10, 6),)
        )

    @proves(RouterDriver, 14)
    def test_a_local_part_routes_between_its_interfaces(self, driver: RouterDriver) -> None:
        self.require(driver, RouterCapability.DISTRIBUTED)
        site = make_distributed()
        one, two = (self.guest(net) for net in site.nets)
        for parts in (site.without(RouterPart.CENTRAL), site):
            self.put(driver, parts)
            for version in FAMILIES:
                echo = self.arrives(one, site.nets[1].address(20, version))
                assert (echo.at, echo.hops) == (two.name, 1)
                assert echo.source == site.nets[0].address(20, version)

    @proves(RouterDriver, 14)
    def test_what_leaves_a_local_part_goes_to_the_central_address_of_its_subnet(
        self, driver: RouterDriver
    ) -> None:
        self.require(driver, RouterCapability.DISTRIBUTED)
        site = make_distributed()
        self.put(driver, site.without(RouterPart.CENTRAL))
        outside = site.external.interfaces(1)
        for net in site.nets:
            one = self.guest(net)
            central = self.environment.machine(
                net.id, (*net.interfaces(CENTRAL_NUMBER), *outside), net.gateways()
            )
            for version in FAMILIES:
                echo = self.arrives(one, site.external.address(1, version))
                assert (echo.at, echo.hops) == (central.name, 1)
                assert echo.source == net.address(20, version)

    @proves(RouterDriver, 15)
    def test_instances_leave_and_are_reached_by_the_central_part(
        self, driver: RouterDriver
    ) -> None:
        self.require(driver, RouterCapability.DISTRIBUTED)
        site = make_distributed()
        self.put(driver, site)
        one, outside = self.guest(site.nets[1]), self.outsider(site)
        echo = self.arrives(one, site.external.address(1))
        assert (echo.at, echo.hops) == (outside.name, 2)
        assert echo.source == site.outside_address
        echo = self.arrives(one, site.external.address(1, 6))
        assert echo.source == site.nets[1].address(20, 6)
        assert self.arrives(outside, site.nets[1].address(20, 6)).at == one.name

    @proves(RouterDriver, 15)
    def test_a_central_part_needs_no_local_one(self, driver: RouterDriver) -> None:
        self.require(driver, RouterCapability.DISTRIBUTED)
        site = make_distributed()
        floating = site.floating(50, site.nets[0].address(20), RouterPart.CENTRAL)
        self.put(driver, site.without(RouterPart.LOCAL), floating)
        one, two = (  # their host is another one, whose local part sends here
            self.environment.machine(
                net.id, net.interfaces(20), [net.address(CENTRAL_NUMBER, v) for v in FAMILIES]
            )
            for net in site.nets
        )
        outside = self.outsider(site)
        assert self.arrives(outside, floating.address).at == one.name
        assert self.arrives(one, site.external.address(1)).source == floating.address
        assert self.arrives(two, site.external.address(1)).source == site.outside_address

    @proves(RouterDriver, 15)
    def test_contributions_belong_to_the_central_part(self, driver: RouterDriver) -> None:
        self.require(driver, RouterCapability.DISTRIBUTED)
        driver.grant(GrantRequest(owner=EXTENSION))
        site = make_distributed()
        shared, inside = site.external.address(60), site.nets[0].address(20)
        rules = forward(shared, TCP, "2222", f"{inside}:80")
        self.put(driver, site.with_state(contributions=(rules,)))
        one, outside = self.guest(site.nets[0]), self.outsider(site)
        assert self.arrives(outside, shared, TCP, 2222).at == one.name

    @proves(RouterDriver, 3, 15)
    def test_rules_with_ports_are_at_local_parts_that_want_them(self, driver: RouterDriver) -> None:
        self.require(driver, RouterCapability.DISTRIBUTED)
        driver.grant(GrantRequest(owner=EXTENSION))
        site = make_distributed()
        floating = site.floating(50, site.nets[0].address(20))
        first, second = (each.id for each in site.local.interfaces)
        outer, target = site.central.gateway.port.id, site.external.address(1)
        self.put(driver, site, make_agent_gateway(site.external), floating)
        one, two = (self.guest(net) for net in site.nets)
        outside = self.outsider(site)
        assert self.arrives(one, target).source == floating.address
        central_only = of_families(drop(first, outer), drop(first, second))
        self.put(driver, site.with_state(contributions=(central_only,)))
        assert self.arrives(one, target).source == floating.address
        assert self.arrives(one, site.nets[1].address(20)).at == two.name
        pairs = (first, outer), (outer, first), (second, first)
        both = of_families(*(drop(*pair, local=True) for pair in pairs))
        self.put(driver, site.with_state(contributions=(both,)))
        self.assert_unreachable(one, target)
        self.assert_unreachable(outside, floating.address)
        self.assert_unreachable(two, site.nets[0].address(20))
        assert self.arrives(two, target).source == site.outside_address

    @proves(RouterDriver, 14, 16)
    def test_a_floating_ip_of_a_local_part_works_in_both_directions(
        self, driver: RouterDriver
    ) -> None:
        self.require(driver, RouterCapability.DISTRIBUTED)
        site = make_distributed().without(RouterPart.CENTRAL)
        floating = site.floating(50, site.nets[0].address(20))
        self.put(driver, site, make_agent_gateway(site.external), floating)
        one, two = (self.guest(net) for net in site.nets)
        outside = self.environment.machine(site.external.id, site.external.interfaces(1))
        assert self.arrives(outside, floating.address).at == one.name
        echo = self.arrives(one, site.external.address(1), TCP, 80)
        assert (echo.at, echo.source) == (outside.name, floating.address)
        echo = self.arrives(one, site.nets[1].address(20))  # inside, nothing is translated
        assert (echo.at, echo.source) == (two.name, site.nets[0].address(20))
        self.assert_unreachable(two, site.external.address(1))

    @proves(RouterDriver, 2, 16)
    def test_a_floating_ip_of_a_local_part_is_announced_once_it_works(
        self, driver: RouterDriver
    ) -> None:
        self.require(driver, RouterCapability.DISTRIBUTED)
        site = make_distributed().without(RouterPart.CENTRAL)
        gateway = make_agent_gateway(site.external)
        floating = site.floating(50, site.nets[0].address(20))
        self.put(driver, site, gateway)
        outside = self.environment.machine(site.external.id, site.external.interfaces(1))
        self.arrives(self.guest(site.nets[0]), site.nets[0].address(1))
        mac, echo = outside.announced(
            floating.address, next_mac(), lambda: self.put(driver, floating)
        )
        assert mac == gateway.value.port.mac
        assert echo is not None, "it was announced before it worked"

    @proves(RouterDriver, 16)
    def test_a_prepared_floating_ip_has_no_way_in_until_it_is_active(
        self, driver: RouterDriver
    ) -> None:
        self.require(driver, RouterCapability.DISTRIBUTED)
        site = make_distributed().without(RouterPart.CENTRAL)
        gateway = make_agent_gateway(site.external)
        floating = site.floating(50, site.nets[0].address(20))
        prepared = evolve(floating, value=evolve(floating.value, prepared=True))
        self.put(driver, site, gateway)
        one = self.guest(site.nets[0])
        outside = self.environment.machine(site.external.id, site.external.interfaces(1))
        self.arrives(one, site.nets[0].address(1))
        for _ in range(2):  # it may come back
            mac, _ = outside.announced(
                floating.address, next_mac(), lambda: self.put(driver, prepared)
            )
            assert mac is None, "it was announced before it is active"
            self.assert_unreachable(outside, floating.address)
            self.put(driver, site)
            self.assert_unreachable(outside, floating.address)
            mac, echo = outside.announced(
                floating.address, next_mac(), lambda: self.put(driver, floating)
            )
            assert mac == gateway.value.port.mac
            assert echo is not None, "it was announced before it worked"
            assert self.arrives(outside, floating.address).at == one.name

    @proves(RouterDriver, 10)
    def test_a_floating_ip_waits_for_the_agent_gateway(self, driver: RouterDriver) -> None:
        self.require(driver, RouterCapability.DISTRIBUTED)
        site = make_distributed().without(RouterPart.CENTRAL)
        gateway = make_agent_gateway(site.external)
        floating = site.floating(50, site.nets[0].address(20))
        self.environment.admit(site.ports)
        outcome = driver.converge(Update(put=entries(site, floating=[floating])))
        assert outcome.done == {site.key}, str(outcome)
        assert outcome.waiting.keys() == {floating.key}, str(outcome)
        one = self.guest(site.nets[0])
        outside = self.environment.machine(site.external.id, site.external.interfaces(1))
        self.arrives(one, site.nets[0].address(1))
        self.assert_unreachable(outside, floating.address)
        dead = entries(gateways=[gateway], floating=[floating])
        outcome = driver.converge(Update(put=dead))
        assert outcome.done == {gateway.key}, str(outcome)
        assert outcome.waiting.keys() == {floating.key}, "the agent gateway is not wired"
        self.put(driver, gateway, floating)
        assert self.arrives(outside, floating.address).at == one.name

    @proves(RouterDriver, 15, 16)
    def test_a_floating_ip_moves_between_the_parts(self, driver: RouterDriver) -> None:
        self.require(driver, RouterCapability.DISTRIBUTED)
        site = make_distributed()
        fixed = site.nets[0].address(20)
        local = site.floating(50, fixed)
        central = Floating(id=local.id, value=site.floating(50, fixed, RouterPart.CENTRAL).value)
        self.put(driver, site, make_agent_gateway(site.external))
        one, outside = self.guest(site.nets[0]), self.outsider(site)
        for each in (central, local, central):
            self.put(driver, each)
            assert self.arrives(outside, local.address).at == one.name
            assert self.arrives(one, site.external.address(1), TCP, 80).source == local.address

    @proves(RouterDriver, 16)
    def test_two_routers_share_an_agent_gateway(self, driver: RouterDriver) -> None:
        self.require(driver, RouterCapability.DISTRIBUTED)
        one = make_distributed(make_net(1)).without(RouterPart.CENTRAL)
        two = make_distributed(make_net(2), external=one.external).without(RouterPart.CENTRAL)
        sites, gateway = (one, two), make_agent_gateway(one.external)
        floating = [each.floating(50 + n, each.nets[0].address(20)) for n, each in enumerate(sites)]
        self.put(driver, one, gateway, floating[0])
        machines = [self.guest(each.nets[0]) for each in sites]
        outside = self.environment.machine(one.external.id, one.external.interfaces(1))
        self.arrives(outside, floating[0].address)
        traffic = outside.traffic(floating[0].address)
        self.put(driver, two, floating[1])
        assert self.arrives(outside, floating[1].address).at == machines[1].name
        echo = self.arrives(machines[0], floating[1].address, TCP, 80)
        assert (echo.at, echo.source) == (machines[1].name, floating[0].address)
        self.remove(driver, two, floating[1])
        assert traffic.stop() == 0
        self.assert_unreachable(outside, floating[1].address)

    @proves(RouterDriver, 6, 16)
    def test_each_part_that_goes_leaves_nothing(self, driver: RouterDriver) -> None:
        self.require(driver, RouterCapability.DISTRIBUTED)
        site = make_distributed()
        gateway = make_agent_gateway(site.external)
        floating = site.floating(50, site.nets[0].address(20))
        self.put(driver)  # what a driver has as long as it runs
        states = [self.environment.dump_state()]
        steps: list[Thing] = [site.without(RouterPart.CENTRAL), site, gateway, floating]
        for each in steps:
            self.put(driver, each)
            states.append(self.environment.dump_state())
        one, outside = self.guest(site.nets[0]), self.outsider(site)
        assert self.arrives(outside, floating.address).at == one.name
        self.environment.dismiss()
        self.remove(driver, floating)
        assert floating.key not in driver.present()
        assert self.environment.dump_state() <= states[3]
        self.remove(driver, gateway)
        assert driver.present() == {site.key}
        assert self.environment.dump_state() <= states[2]
        self.put(driver, site.without(RouterPart.CENTRAL))
        assert self.environment.dump_state() <= states[1]
        self.put(driver, site)
        self.put(driver, site.without(RouterPart.LOCAL))
        assert driver.status(site.router).devices.keys() == {
            port.id for port in site.without(RouterPart.LOCAL).ports
        }
        self.remove(driver, site)
        assert self.environment.dump_state() <= states[0]

    @proves(RouterDriver, 4)
    def test_a_restart_leaves_distributed_routers_alone(self, make_driver: MakeDriver) -> None:
        driver = make_driver()
        self.require(driver, RouterCapability.DISTRIBUTED)
        site = make_distributed()
        floating = site.floating(50, site.nets[0].address(20))
        things = (site, make_agent_gateway(site.external), floating)
        self.put(driver, *things)
        self.guest(site.nets[0])
        other, outside = self.guest(site.nets[1]), self.outsider(site)
        self.arrives(outside, floating.address)
        target: IpAddress = site.external.address(1)
        self.arrives(other, target)
        streams = self.connected(outside, floating.address, 80), self.connected(other, target, 80)
        traffic = outside.traffic(floating.address), other.traffic(target)
        for complete in (True, False):
            put = {each.key: each.value for each in things}
            outcome = make_driver().converge(Update(put=put, complete=complete))
            assert outcome.ok, str(outcome)
        assert [each.stop() for each in traffic] == [0, 0]
        for stream in streams:
            assert stream.stays_alive()
            stream.close()

    @proves(RouterDriver, 11, 15)
    def test_instances_reach_the_metadata_proxy_of_the_local_part_alone(
        self, driver: RouterDriver
    ) -> None:
        self.require(driver, RouterCapability.DISTRIBUTED)
        site = make_distributed()
        self.put(driver, site)
        self.environment.listen_metadata(site.router, site.state)
        one = self.guest(site.nets[0])
        target = METADATA_ADDRESSES[4].ip
        seen = wait_until(lambda: one.metadata(target), seconds=self.environment.timeout)
        assert seen == site.nets[0].address(20)
        for version in FAMILIES:
            assert one.connect(site.nets[0].address(1, version), METADATA_PORT) is None

    @proves(RouterDriver, 6)
    def test_status_names_the_parts_of_the_host(self, driver: RouterDriver) -> None:
        self.require(driver, RouterCapability.DISTRIBUTED)
        site = make_distributed()
        for each in (site, site.without(RouterPart.LOCAL), site.without(RouterPart.CENTRAL)):
            self.put(driver, each)
            status = driver.status(site.router)
            assert status.devices.keys() == {port.id for port in each.ports}
            assert status.role is None
            names = {part: driver.namespace_of(site.router, part) for part in each.state.parts}
            assert status.namespaces == {k: name for k, name in names.items() if name is not None}
            assert len({*status.namespaces.values()}) == len(status.namespaces)
