"""Packet questions of forwarding: P-1, P-2, P-6, P-8, P-13."""

from __future__ import annotations

from ipaddress import ip_interface, ip_network

import pytest
from attrs import evolve

from netfw.drivers.router import RouterDriver
from netfw.errors import PartlyInvalid
from netfw.model.values.route import Route
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.router.case import FAMILIES, RouterCase
from netfw.testing.conformance.router.factories import RoutedNetwork, address, make_net, make_site

FAR = ip_network("198.51.100.0/24")


class RouterForwardingConformance(RouterCase):
    """Instances behind the interfaces of routers, and their routes."""

    @proves(RouterDriver, 1)
    @pytest.mark.parametrize("version", FAMILIES)
    def test_instances_of_two_networks_reach_each_other_untranslated(
        self, driver: RouterDriver, version: int
    ) -> None:
        site = make_site()
        self.bring(driver, site)
        one, two = self.instance(site, 0), self.instance(site, 1)
        first, second = (net.address(20, version) for net in site.nets)
        for source, own, target, to in ((one, first, two, second), (two, second, one, first)):
            echo = self.arrives(source, to)
            assert (echo.at, echo.source, echo.hops) == (target.name, own, 1)

    @proves(RouterDriver, 1)
    def test_a_port_with_several_subnets_serves_each(self, driver: RouterDriver) -> None:
        blocks = ("10.0.1.0/24", "10.0.9.0/24", "fd00:1::/64", "fd00:9::/64")
        wide = RoutedNetwork(blocks=tuple(ip_network(text) for text in blocks))
        site = make_site(wide, make_net(2))
        self.bring(driver, site)
        other = self.instance(site, 1)
        for number, block in enumerate(wide.blocks):
            own = ip_interface((block[30 + number], block.prefixlen))
            self.environment.machine(wide.id, (own,), (block[1],))
            assert self.arrives(other, own.ip).hops == 1

    @proves(RouterDriver, 1)
    @pytest.mark.parametrize("version", FAMILIES)
    def test_a_packet_that_is_too_big_is_answered_with_the_mtu(
        self, driver: RouterDriver, version: int
    ) -> None:
        site = make_site(make_net(1), make_net(2, mtu=1400))
        self.bring(driver, site)
        one, _ = self.instance(site, 0), self.instance(site, 1, mtu=1400)
        target = site.nets[1].address(20, version)
        self.arrives(one, target)
        assert one.path_mtu(target, 1450) == 1400
        assert one.path_mtu(target, 1400) is None

    @proves(RouterDriver, 1)
    def test_two_routers_on_one_network_serve_it_both(self, driver: RouterDriver) -> None:
        shared = make_net(1)
        one = make_site(shared, make_net(2))
        two = make_site(shared, make_net(3), external=one.external, number=11)
        second = shared.port(2)
        two = two.with_full(interfaces=(second, two.full.interfaces[1]))
        self.bring(driver, one)
        self.bring(driver, two)
        self.instance(one, 1)
        self.instance(two, 1)
        by_one = self.environment.machine(shared.id, shared.interfaces(20), shared.gateways())
        by_two = self.environment.machine(shared.id, shared.interfaces(21), (shared.address(2),))
        assert self.arrives(by_one, one.nets[1].address(20)).hops == 1
        assert self.arrives(by_two, two.nets[1].address(20)).hops == 1
        self.assert_unreachable(by_two, one.nets[1].address(20))

    @proves(RouterDriver, 1)
    def test_one_cidr_behind_two_routers_is_two_networks(self, driver: RouterDriver) -> None:
        one = make_site(make_net(1))
        two = make_site(make_net(1), external=one.external, number=11)
        for site in (one, two):
            self.bring(driver, site)
        outside = self.outside(one)
        for site in (one, two):
            echo = self.arrives(self.instance(site), one.external.address(1))
            assert (echo.at, echo.source) == (outside.name, site.outside_address)

    @proves(RouterDriver, 1, 5)
    def test_routes_are_added_changed_and_removed(self, driver: RouterDriver) -> None:
        site = make_site()
        self.bring(driver, site)
        source, net = self.instance(site, 0), site.nets[1]
        far = [ip_interface((FAR[9], 32))]
        hops = [
            self.environment.machine(net.id, (*net.interfaces(n), *far), net.gateways())
            for n in (31, 32)
        ]
        self.assert_unreachable(source, FAR[9])
        for number, hop in zip((31, 32), hops, strict=True):
            route = Route(destination=FAR, nexthop=net.address(number))
            self.bring(driver, site.with_state(routes=(route,)))
            assert self.arrives(source, FAR[9]).at == hop.name
        self.bring(driver, site)
        self.assert_unreachable(source, FAR[9])

    @proves(RouterDriver, 1)
    def test_two_next_hops_of_one_destination_are_both_used(self, driver: RouterDriver) -> None:
        site, used = make_site(), set()
        net = site.nets[1]
        routes = tuple(Route(destination=FAR, nexthop=net.address(n)) for n in (31, 32))
        self.bring(driver, site.with_state(routes=routes))
        sources = [self.instance(site, 0, number) for number in range(40, 46)]
        far = [ip_interface((FAR[n], 32)) for n in range(1, 9)]
        hops = {
            self.environment.machine(net.id, (*net.interfaces(n), *far), net.gateways()).name
            for n in (31, 32)
        }
        for source in sources:
            for target in far:
                used.add(self.arrives(source, target.ip).at)
        assert used == hops

    @proves(RouterDriver, 13)
    def test_a_route_that_cannot_be_is_left_out(self, driver: RouterDriver) -> None:
        site = make_site()
        net = site.nets[0]
        self.environment.admit(site.ports)
        routes = (
            Route(destination="198.51.101.0/24", nexthop="192.0.2.1"),
            Route(destination=FAR, nexthop=net.address(31)),
        )
        wanted = site.with_state(routes=routes).wanted()
        for _ in range(2):
            outcome = driver.converge(Update(put=wanted))
            error = outcome.failed.get(site.key)
            assert isinstance(error, PartlyInvalid), str(outcome)
            assert "192.0.2.1" in str(error)
        one, outside = self.instance(site), self.outside(site)
        assert self.arrives(one, site.external.address(1)).at == outside.name
        far = ip_interface((FAR[7], 24))
        self.environment.machine(net.id, (*net.interfaces(31), far), net.gateways())
        assert self.arrives(self.instance(site, 1), far.ip).hops == 1
        self.bring(driver, site)

    @proves(RouterDriver, 1)
    def test_a_route_by_the_external_network_leaves_there(self, driver: RouterDriver) -> None:
        site = make_site()
        route = Route(destination=FAR, nexthop=site.external.address(7))
        self.bring(driver, site.with_state(routes=(route,)))
        far = (*site.external.interfaces(7), ip_interface((FAR[9], 32)))
        hop = self.environment.machine(site.external.id, far)
        assert self.arrives(self.instance(site), FAR[9]).at == hop.name

    @proves(RouterDriver, 1, 5)
    def test_an_interface_that_is_removed_serves_no_more(self, driver: RouterDriver) -> None:
        site = make_site()
        self.bring(driver, site)
        one, _ = self.instance(site, 0), self.instance(site, 1)
        target = site.nets[1].address(20)
        self.arrives(one, target)
        self.bring(driver, site.with_full(interfaces=site.full.interfaces[:1]))
        self.assert_unreachable(one, target)
        self.bring(driver, site)
        self.arrives(one, target)

    @proves(RouterDriver, 1, 5)
    def test_a_gateway_comes_and_goes_beside_running_traffic(self, driver: RouterDriver) -> None:
        site = make_site()
        self.bring(driver, site.with_full(gateway=None))
        one, _ = self.instance(site, 0), self.instance(site, 1)
        outside, target = self.outside(site), site.external.address(1)
        self.assert_unreachable(one, target)
        self.arrives(one, site.nets[1].address(20))
        traffic = one.traffic(site.nets[1].address(20))
        self.bring(driver, site)
        assert self.arrives(one, target).at == outside.name
        self.bring(driver, site.with_full(gateway=None))
        self.assert_unreachable(one, target)
        assert traffic.stop() == 0

    @proves(RouterDriver, 5)
    def test_an_address_changes_in_place(self, driver: RouterDriver) -> None:
        site = make_site()
        self.bring(driver, site)
        one, _ = self.instance(site, 0), self.instance(site, 1)
        target = site.nets[1].address(20)
        self.arrives(one, target)
        traffic = one.traffic(target)
        inside, other = site.full.interfaces
        more = ip_interface("10.0.77.1/24")
        wider = evolve(inside, addresses=(*inside.addresses, more))
        self.bring(driver, site.with_full(interfaces=(wider, other)))
        self.environment.machine(inside.network, (ip_interface("10.0.77.20/24"),), (more.ip,))
        assert self.arrives(one, address("10.0.77.20")) is not None
        self.bring(driver, site)
        assert traffic.stop() == 0

    @proves(RouterDriver, 6)
    def test_a_dropped_router_leaves_nothing(self, driver: RouterDriver) -> None:
        site = make_site()
        floating = site.floating(50, site.nets[0].address(20))
        before = self.environment.dump_state()
        self.bring(driver, site, floating)
        assert self.environment.dump_state() != before
        outcome = driver.converge(Update(drop=frozenset(site.wanted(floating))))
        assert outcome.ok, str(outcome)
        assert self.environment.dump_state() == before
