"""Packet questions of NAT: P-3, P-4, P-5, P-7, P-12, P-16."""

from __future__ import annotations

from ipaddress import ip_address, ip_interface, ip_network

from attrs import evolve

from netfw.drivers.host_driver import HostCapability
from netfw.drivers.router import RouterDriver
from netfw.drivers.values.events import Event, KeysChanged
from netfw.drivers.values.router_values import RouterDriverKey, RouterDriverValue, RouterPort
from netfw.model.values.address import IpAddress, IpInterface, Mac
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.router.case import RouterCase
from netfw.testing.conformance.router.environment import TCP, UDP, ReceivedEcho
from netfw.testing.conformance.router.factories import Floating, RoutedNetwork, Site, make_site
from netfw.testing.lab.wait import wait_until

STALE = Mac("fa:16:3e:de:ad:01")
MANY = 500
WIDE = RoutedNetwork(blocks=(ip_network("10.0.0.0/20"), ip_network("fd00:1::/64")))
WIDE_EXTERNAL = RoutedNetwork(blocks=(ip_network("203.0.112.0/20"), ip_network("2001:db8:ff::/64")))


class RouterTranslationConformance(RouterCase):
    """SNAT, floating IPs and their announcements."""

    def floating_site(self) -> tuple[Site, Floating]:
        """Return a router and a floating IP of the instance 20 of its first network."""
        site = make_site()
        return site, site.floating(50, site.nets[0].address(20))

    @proves(RouterDriver, 1)
    def test_an_instance_leaves_with_the_address_of_the_gateway(self, driver: RouterDriver) -> None:
        site = make_site()
        self.bring(driver, site)
        one, outside = self.instance(site), self.outside(site)
        target = site.external.address(1)
        for request in ((), (TCP, 80, 40001), (UDP, 80, 40002)):
            echo = self.arrives(one, target, *request)
            assert (echo.at, echo.source) == (outside.name, site.outside_address)
            assert echo.source_port == (request[2] if request else echo.source_port)

    @proves(RouterDriver, 1)
    def test_without_snat_an_instance_leaves_with_its_own_address(
        self, driver: RouterDriver
    ) -> None:
        site = make_site().with_gateway(snat=False)
        self.bring(driver, site)
        one = self.instance(site)
        self.environment.machine(
            site.external.id, site.external.interfaces(1), (site.outside_address,)
        )
        assert self.arrives(one, site.external.address(1)).source == site.nets[0].address(20)

    @proves(RouterDriver, 1)
    def test_ipv6_leaves_and_arrives_untranslated(self, driver: RouterDriver) -> None:
        site = make_site()
        self.bring(driver, site)
        one, outside = self.instance(site), self.outside(site)
        inside = site.nets[0].address(20, 6)
        assert self.arrives(one, site.external.address(1, 6)).source == inside
        assert self.arrives(outside, inside).at == one.name

    @proves(RouterDriver, 2)
    def test_a_floating_ip_works_in_both_directions(self, driver: RouterDriver) -> None:
        site, floating = self.floating_site()
        self.bring(driver, site, floating)
        one, other, outside = self.instance(site), self.instance(site, 1), self.outside(site)
        target = site.external.address(1)
        for request in ((), (TCP, 80), (UDP, 80)):
            assert self.arrives(outside, floating.address, *request).at == one.name
            assert self.arrives(one, target, *request).source == floating.address
        assert self.arrives(other, target).source == site.outside_address
        assert self.arrives(one, site.nets[1].address(20)).source == site.nets[0].address(20)

    @proves(RouterDriver, 2)
    def test_a_floating_ip_is_reached_from_inside(self, driver: RouterDriver) -> None:
        """Hairpin: from its own instance, from a neighbour, and from one with a floating IP."""
        site, floating = self.floating_site()
        second = site.floating(51, site.nets[1].address(20))
        self.bring(driver, site, floating, second)
        one, neighbour = self.instance(site), self.instance(site, 0, 21)
        other = self.instance(site, 1)
        for source in (one, neighbour, other):
            assert self.arrives(source, floating.address).at == one.name
        assert self.arrives(one, second.address).at == other.name

    @proves(RouterDriver, 2)
    def test_a_moved_floating_ip_ends_its_connections(self, driver: RouterDriver) -> None:
        site, floating = self.floating_site()
        self.bring(driver, site, floating)
        one, other, outside = self.instance(site), self.instance(site, 1), self.outside(site)
        self.arrives(outside, floating.address)
        stream = self.connected(outside, floating.address, 80)
        assert stream.stays_alive()
        self.bring(driver, site, floating.to(site.nets[1].address(20)))
        assert self.environment.connections(floating.address) == 0
        assert not stream.is_alive()
        assert self.arrives(outside, floating.address, TCP, 80).at == other.name
        assert self.arrives(one, site.external.address(1)).source == site.outside_address
        stream.close()

    @proves(RouterDriver, 2)
    def test_a_dropped_floating_ip_ends_its_connections(self, driver: RouterDriver) -> None:
        site, floating = self.floating_site()
        self.bring(driver, site, floating)
        one, outside = self.instance(site), self.outside(site)
        self.arrives(outside, floating.address)
        streams = [
            self.connected(outside, floating.address, 80),
            self.connected(one, site.external.address(1), 80),
        ]
        assert all(stream.stays_alive() for stream in streams)
        assert self.environment.connections(floating.address) >= len(streams)
        self.drop(driver, floating)
        assert self.environment.connections(floating.address) == 0
        for stream in streams:
            assert not stream.is_alive()
            stream.close()
        self.assert_unreachable(outside, floating.address)

    @proves(RouterDriver, 2)
    def test_another_floating_ip_takes_over_an_address(self, driver: RouterDriver) -> None:
        site, floating = self.floating_site()
        self.bring(driver, site, floating)
        one, outside = self.instance(site), self.outside(site)
        successor = site.floating(50, site.nets[0].address(20))
        outcome = driver.converge(
            Update(put={successor.key: successor.value}, drop=frozenset({floating.key}))
        )
        assert outcome.ok, str(outcome)
        assert self.arrives(outside, successor.address).at == one.name
        assert floating.key not in driver.present()

    @proves(RouterDriver, 2)
    def test_a_floating_ip_moves_to_another_router(self, driver: RouterDriver) -> None:
        site, floating = self.floating_site()
        second = make_site(external=site.external, number=11)
        self.bring(driver, site, floating)
        self.bring(driver, second)
        moved = evolve(floating, value=evolve(floating.value, router=second.router))
        outside = self.outside(site)
        one, other = self.instance(site), self.instance(second)
        assert self.arrives(outside, floating.address).at == one.name
        self.bring(driver, second, moved)
        wait_until(
            lambda: (found := outside.reach(moved.address)) is not None and found.at == other.name,
            seconds=self.environment.timeout,
        )
        assert self.arrives(one, site.external.address(1)).source == site.outside_address

    @proves(RouterDriver, 2)
    def test_a_floating_ip_is_announced_once_it_works(self, driver: RouterDriver) -> None:
        site, floating = self.floating_site()
        self.bring(driver, site)
        one, outside = self.instance(site), self.outside(site)
        mac, echo = outside.announced(
            floating.address, STALE, lambda: self.bring(driver, site, floating)
        )
        assert mac == site.gateway.port.mac
        assert echo is not None, "it was announced before it worked"
        assert echo.at == one.name

    @proves(RouterDriver, 2)
    def test_a_gateway_address_is_announced(self, driver: RouterDriver) -> None:
        site = make_site()
        outside = self.outside(site)
        for gateway in site.gateway.port.addresses:
            self.bring(driver, site.with_full(gateway=None))
            mac, _ = outside.announced(gateway.ip, STALE, lambda: self.bring(driver, site))
            assert mac == site.gateway.port.mac, f"{gateway.ip} was not announced"

    @proves(RouterDriver, 2, 5)
    def test_a_gateway_address_changes_beside_floating_ips(self, driver: RouterDriver) -> None:
        site, floating = self.floating_site()
        self.bring(driver, site, floating)
        one, other, outside = self.instance(site), self.instance(site, 1), self.outside(site)
        self.arrives(outside, floating.address)
        traffic = outside.traffic(floating.address)
        kept = self.connected(outside, floating.address, 80)
        lost = self.connected(other, site.external.address(1), 80)
        port = site.gateway.port
        changed = site.with_gateway(port=evolve(port, addresses=site.external.interfaces(12)))
        self.bring(driver, changed, floating)
        assert self.arrives(other, site.external.address(1)).source == site.external.address(12)
        assert kept.stays_alive()
        assert not lost.is_alive()
        assert traffic.stop() == 0
        assert self.arrives(one, site.external.address(1)).source == floating.address
        for stream in (kept, lost):
            stream.close()

    @proves(RouterDriver, 1)
    def test_a_next_hop_outside_the_subnet_is_on_the_link(self, driver: RouterDriver) -> None:
        site = make_site()
        hop, far = ip_address("192.0.2.1"), ip_address("198.51.100.77")
        site = site.with_gateway(next_hops=(hop,))
        self.bring(driver, site)
        faces = (*site.external.interfaces(1), *(_host(each) for each in (hop, far)))
        outside = self.environment.machine(site.external.id, faces)
        echo = self.arrives(self.instance(site), far)
        assert (echo.at, echo.source) == (outside.name, site.outside_address)

    @proves(RouterDriver, 1)
    def test_a_router_advertisement_gives_the_ipv6_default_route(
        self, driver: RouterDriver
    ) -> None:
        site, far = make_site(), ip_address("2001:db8:99::1")
        site = site.with_gateway(next_hops=(site.external.address(1),), ipv6_from_ra=True)
        self.bring(driver, site)
        faces = (*site.external.interfaces(1), _host(far))
        ways = (site.external.address(10, 6),)
        outside = self.environment.machine(site.external.id, faces, ways)
        one = self.instance(site)
        self.arrives(one, site.external.address(1, 6))
        self.assert_unreachable(one, far)

        def attempt() -> ReceivedEcho | None:
            outside.advertise_router()
            return one.reach(far)

        echo = wait_until(attempt, f"{far} is not reached", seconds=self.environment.timeout)
        assert echo is not None
        assert (echo.at, echo.source) == (outside.name, site.nets[0].address(20, 6))

    @proves(RouterDriver, 1)
    def test_another_subnet_of_the_external_network_is_on_the_link(
        self, driver: RouterDriver
    ) -> None:
        site, subnet = make_site(), ip_network("198.51.100.0/24")
        site = site.with_gateway(next_hops=(), onlink_subnets=(subnet,))
        self.bring(driver, site)
        faces = (*site.external.interfaces(1), ip_interface((subnet[5], subnet.prefixlen)))
        outside = self.environment.machine(site.external.id, faces)
        echo = self.arrives(self.instance(site), subnet[5])
        assert (echo.at, echo.source) == (outside.name, site.outside_address)

    @proves(RouterDriver, 3, 4)
    def test_one_refused_floating_ip_among_many_fails_alone(self, driver: RouterDriver) -> None:
        site = make_site(WIDE, external=WIDE_EXTERNAL)
        all_of_them = [
            site.floating(number, site.nets[0].address(number)) for number in range(20, 20 + MANY)
        ]
        bad = all_of_them[7]
        self.environment.admit(site.ports)
        one, outside = self.instance(site, 0, 30), self.outside(site)
        self.bring(driver, site)
        with self.environment.refuse_rules(bad.address):
            outcome = driver.converge(Update(put=site.wanted(*all_of_them)))
            assert outcome.failed.keys() == {bad.key}, str(outcome)
            assert str(outcome.failed[bad.key])
        assert self.arrives(outside, all_of_them[10].address).at == one.name
        assert self.arrives(self.instance(site, 0, 1000), site.external.address(1)) is not None
        assert bad.key not in driver.present()
        self.bring(driver, site, *all_of_them)
        assert bad.key in driver.present()

    @proves(RouterDriver, 3)
    def test_refused_rules_leave_the_former_ones_in_force(self, driver: RouterDriver) -> None:
        site, floating = self.floating_site()
        self.bring(driver, site, floating)
        one, outside = self.instance(site), self.outside(site)
        self.arrives(outside, floating.address)
        traffic = outside.traffic(floating.address)
        bad = site.floating(51, site.nets[1].address(20))
        with self.environment.refuse_rules(bad.address):
            outcome = driver.converge(Update(put=site.wanted(floating, bad)))
        assert outcome.failed.keys() == {bad.key}, str(outcome)
        assert traffic.stop() == 0
        assert self.arrives(one, site.external.address(1)).source == floating.address

    @proves(RouterDriver, 10)
    def test_a_floating_ip_waits_for_a_gateway(self, driver: RouterDriver) -> None:
        site, floating = self.floating_site()
        bare = site.with_full(gateway=None)
        self.environment.admit(bare.ports)
        alone: dict[RouterDriverKey, RouterDriverValue] = {floating.key: floating.value}
        for put in (alone, bare.wanted(floating)):
            outcome = driver.converge(Update(put=put))
            assert not outcome.failed, str(outcome)
            assert outcome.waiting.keys() == {floating.key}, str(outcome)
            assert outcome.waiting[floating.key]
        self.bring(driver, site, floating)
        self.instance(site)
        assert self.arrives(self.outside(site), floating.address) is not None

    @proves(RouterDriver, 10)
    def test_a_floating_ip_waits_until_its_gateway_is_wired(self, driver: RouterDriver) -> None:
        self.require(driver, HostCapability.WATCH)
        site, floating = self.floating_site()
        events: list[Event] = []
        driver.watch(events.append)
        self.environment.admit(site.ports, wired=False)
        outcome = driver.converge(Update(put=site.wanted(floating)))
        assert floating.key in outcome.waiting, str(outcome)
        self.environment.admit(site.ports)
        wait_until(
            lambda: any(isinstance(e, KeysChanged) and floating.key in e.keys for e in events),
            seconds=self.environment.timeout,
        )
        outcome = driver.converge(Update(put={floating.key: floating.value}))
        assert outcome.done == {floating.key}, str(outcome)
        one = self.instance(site)
        assert self.arrives(self.outside(site), floating.address).at == one.name

    @proves(RouterDriver, 10)
    def test_a_floating_ip_is_announced_when_its_gateway_is_wired(
        self, driver: RouterDriver
    ) -> None:
        """Check that nothing has to converge the router again."""
        self.require(driver, HostCapability.WATCH)
        site, floating = self.floating_site()
        driver.watch(lambda event: None)
        one, outside = self.instance(site), self.outside(site)
        self.environment.admit(site.ports, wired=False)
        outcome = driver.converge(Update(put=site.wanted(floating)))
        assert floating.key in outcome.waiting, str(outcome)

        def admit() -> None:
            self.environment.admit(site.ports)
            self.environment.await_wired(site.ports)

        mac, echo = outside.announced(floating.address, STALE, admit)
        assert mac == site.gateway.port.mac
        assert echo is not None
        assert echo.at == one.name

    @proves(RouterDriver, 10)
    def test_changes_of_the_wiring_are_announced_and_named(self, driver: RouterDriver) -> None:
        self.require(driver, HostCapability.WATCH)
        site, floating = self.floating_site()
        self.bring(driver, site, floating)
        assert driver.unwired_ports(site.key.router) == frozenset()
        events: list[Event] = []
        driver.watch(events.append)
        changes: tuple[tuple[RouterPort, set[RouterDriverKey]], ...] = (
            (site.full.interfaces[0], {site.key}),
            (site.gateway.port, {site.key, floating.key}),
        )
        for port, keys in changes:
            for wired in (False, True):
                events.clear()
                self.environment.admit([port], wired=wired)
                self._await_changed(events, keys)
                unwired = frozenset() if wired else {port.id}
                assert driver.unwired_ports(site.key.router) == unwired
                outcome = driver.converge(Update(put=site.wanted(floating)))
                assert outcome.waiting.keys() == keys - {site.key, *(keys if wired else ())}

    def _await_changed(self, events: list[Event], keys: set[RouterDriverKey]) -> None:
        """Wait until events have named *keys*."""

        def named() -> bool:
            changed = (event.keys for event in events if isinstance(event, KeysChanged))
            return keys <= frozenset().union(*changed)

        wait_until(named, seconds=self.environment.timeout)


def _host(address: IpAddress) -> IpInterface:
    return ip_interface((address, address.max_prefixlen))
