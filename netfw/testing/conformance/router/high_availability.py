"""Packet questions of highly available routers on two hosts: H-1, H-2, H-4, H-7."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, ip_interface, ip_network

import pytest
from attrs import define, field

from netfw.drivers.dhcp import METADATA_ADDRESSES
from netfw.drivers.router import RouterCapability, RouterDriver
from netfw.drivers.values.events import Event
from netfw.drivers.values.pipeline_grant import GrantRequest
from netfw.drivers.values.router_contribution import RouterContribution
from netfw.drivers.values.router_values import HA_PRIORITY, RoleChanged
from netfw.model.router import HaRole
from netfw.model.subnet import Ipv6Mode
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.router.case import (
    FAMILIES,
    MakeDriver,
    RouterCase,
    emptied,
)
from netfw.testing.conformance.router.contributions import EXTENSION
from netfw.testing.conformance.router.environment import Machine, RouterEnvironment
from netfw.testing.conformance.router.factories import (
    Floating,
    RoutedNetwork,
    Site,
    make_ha_sites,
    make_net,
    make_site,
)
from netfw.testing.conformance.router.services import advertising
from netfw.testing.lab.wait import wait_until

ONE_ACTIVE = [HaRole.ACTIVE, HaRole.STANDBY]


@define(eq=False)
class HaHost:
    """A host of a highly available router."""

    environment: RouterEnvironment
    make: Callable[[], RouterDriver]
    """Kills the driver of the host, and returns a new one."""
    site: Site
    driver: RouterDriver = field(init=False)
    known_role: HaRole | None = None
    """The role that the driver reported: by its status after ``converge``, then by events."""
    changes: int = 0
    """Number of events that changed the known role."""

    def start(self) -> None:
        """Start a new driver in place of the former one."""
        self.driver = self.make()
        self.driver.watch(self._take_event)

    @property
    def role(self) -> HaRole | None:
        """The role by the status of the driver."""
        return self.driver.status(self.site.router).role

    def _take_event(self, event: Event) -> None:
        if isinstance(event, RoleChanged) and event.router == self.site.router:
            self.changes += event.role != self.known_role
            self.known_role = event.role


Pair = tuple[HaHost, HaHost]


class RouterHaConformance(RouterCase):
    """Routers on two hosts, one of which is active."""

    @contextmanager
    def pair(
        self, make_driver: MakeDriver, *priorities: int, plain: Site | None = None
    ) -> Iterator[Pair]:
        """Yield two hosts for one router, without the router; check that the second is left
        empty."""
        self.require(make_driver(), RouterCapability.HA)
        far = self.environment.peer()
        blank = emptied(far)
        drivers: list[RouterDriver] = []

        def make_far_driver() -> RouterDriver:
            while drivers:
                far.killed(drivers.pop())
            drivers.append(far.make_driver())
            return drivers[-1]

        sites = make_ha_sites(
            advertising(plain or make_site(), Ipv6Mode.SLAAC),
            *(priorities or (HA_PRIORITY, HA_PRIORITY)),
        )
        pair = (
            HaHost(self.environment, make_driver, sites[0]),
            HaHost(far, make_far_driver, sites[1]),
        )
        try:
            for host in pair:
                host.start()
            yield pair
        finally:
            for driver in drivers:
                far.killed(driver)
            far.dismiss()
            left = emptied(far) - blank
        assert not left, f"left behind on the second host: {sorted(left)}"

    def bring_host(self, host: HaHost, *floating: Floating) -> None:
        """Put the router of *host*, again once its ports are wired, and read its role."""
        self.bring(host.driver, host.site, *floating, environment=host.environment)
        outcome = host.driver.converge(Update(put=host.site.wanted(*floating)))
        assert outcome.ok, str(outcome)
        if host.known_role is None:
            host.known_role = host.role

    def bring_pair(self, pair: Pair, *floating: Floating) -> Pair:
        """Put the router on both hosts; return the active host and the other one."""
        for host in pair:
            self.bring_host(host, *floating)
        roles = self.await_one_active(pair)
        self.assert_roles_reported(pair)
        return roles

    def await_one_active(self, pair: Pair) -> Pair:
        """Wait until one host is active and the other one is not; return them in this order."""
        wait_until(
            lambda: sorted(str(host.role) for host in pair) == ONE_ACTIVE,
            lambda: f"roles {[str(host.role) for host in pair]}",
            seconds=self.environment.timeout,
        )
        one, other = pair
        return (one, other) if one.role is HaRole.ACTIVE else (other, one)

    def await_role(self, host: HaHost, role: HaRole) -> None:
        """Wait until *host* has the role."""
        what = f"the router does not become {role}"
        wait_until(lambda: host.role is role, what, seconds=self.environment.timeout)

    def assert_passes(self, one: Machine, site: Site, outside: Machine) -> None:
        """Check that *one*, on the first network, reaches the gateway and *outside* once each."""
        for version in FAMILIES:
            self.arrives(one, site.nets[0].address(1, version))
            assert self.arrives(one, site.external.address(1, version)).at == outside.name
            for target in (site.nets[0].address(1, version), site.external.address(1, version)):
                answers = one.count_answers(target)
                assert answers == 1, f"{answers} answers of {target} to {one.name}"

    @proves(RouterDriver, 7)
    def test_one_of_two_hosts_is_active_and_reached_from_both(
        self, make_driver: MakeDriver
    ) -> None:
        with self.pair(make_driver) as pair:
            floating = pair[0].site.floating(50, pair[0].site.nets[0].address(20))
            active, standby = self.bring_pair(pair, floating)
            outside = self.outside(active.site)
            machines = [
                self.instance(host.site, number=number, environment=host.environment)
                for host, number in ((active, 20), (standby, 21))
            ]
            for machine in machines:
                self.assert_passes(machine, active.site, outside)
            assert self.arrives(outside, floating.address).at == machines[0].name
            assert outside.count_answers(floating.address) == 1

    @proves(RouterDriver, 7)
    def test_a_standby_sends_nothing(self, make_driver: MakeDriver) -> None:
        with self.pair(make_driver) as pair:
            floating = pair[0].site.floating(50, pair[0].site.nets[0].address(20))
            active, standby = self.bring_pair(pair)
            machine = self.instance(standby.site, environment=standby.environment)
            ports = standby.site.shared_ports
            before = standby.environment.sent_frames(ports)
            for host in pair:
                self.bring_host(host, floating)
            self.arrives(machine, active.site.nets[0].address(1))
            wait_until(machine.advertisement, seconds=self.environment.timeout)
            standby.start()
            self.bring_host(standby, floating)
            assert self.await_one_active(pair)[1] is standby
            assert standby.environment.sent_frames(ports) == before

    @proves(RouterDriver, 2, 7)
    def test_the_active_instance_alone_answers_for_proxied_addresses(
        self, make_driver: MakeDriver
    ) -> None:
        near = RoutedNetwork(blocks=(ip_network("203.0.113.0/24"), ip_network("fd00:ff::/64")))
        plain = make_site(external=near)
        proxied = plain.nets[0].address(20, 6)
        made = RouterContribution(owner=EXTENSION, proxied=(IPv6Address(proxied),))
        plain = plain.with_state(contributions=(made,))
        with self.pair(make_driver, plain=plain) as pair:
            for host in pair:
                host.driver.grant(GrantRequest(owner=EXTENSION))
            active, standby = self.bring_pair(pair)
            ports = standby.site.shared_ports
            before = standby.environment.sent_frames(ports)
            one = self.instance(standby.site, environment=standby.environment)
            addresses = [ip_interface(f"{near.address(number, 6)}/16") for number in (2, 3)]
            first = standby.environment.machine(near.id, [addresses[0]], [])
            assert self.arrives(first, proxied).at == one.name
            assert standby.environment.sent_frames(ports) == before
            self.drop(active.driver, active.site)
            self.await_role(standby, HaRole.ACTIVE)
            second = standby.environment.machine(near.id, [addresses[1]], [])
            assert self.arrives(second, proxied).at == one.name

    @proves(RouterDriver, 7)
    def test_the_other_host_takes_over_when_the_router_leaves_the_active_one(
        self, make_driver: MakeDriver
    ) -> None:
        with self.pair(make_driver) as pair:
            site = pair[0].site
            floating = site.floating(50, site.nets[0].address(20))
            active, standby = self.bring_pair(pair, floating)
            for host in pair:
                host.environment.listen_metadata(site.router, host.site.state)
            outside = self.outside(site)
            one = self.instance(site, environment=active.environment)
            self.assert_passes(one, site, outside)
            self.drop(active.driver, active.site, floating)
            self.await_role(standby, HaRole.ACTIVE)
            self.assert_passes(one, site, outside)
            assert self.arrives(outside, floating.address).at == one.name
            wait_until(one.advertisement, seconds=self.environment.timeout)
            metadata = METADATA_ADDRESSES[4].ip
            wait_until(lambda: one.metadata(metadata), seconds=self.environment.timeout)

    @proves(RouterDriver, 7)
    def test_the_other_host_takes_over_when_the_active_one_is_cut_off(
        self, make_driver: MakeDriver
    ) -> None:
        with self.pair(make_driver) as pair:
            active, standby = self.bring_pair(pair)
            outside = self.outside(standby.site, environment=standby.environment)
            one = self.instance(standby.site, environment=standby.environment)
            with active.environment.cut_off():
                self.await_role(standby, HaRole.ACTIVE)
                self.assert_passes(one, standby.site, outside)
            self.await_one_active(pair)
            self.assert_passes(one, standby.site, outside)

    @proves(RouterDriver, 7)
    def test_every_change_of_role_is_an_event(self, make_driver: MakeDriver) -> None:
        with self.pair(make_driver) as pair:
            active, standby = self.bring_pair(pair)
            with active.environment.cut_off():
                self.await_role(standby, HaRole.ACTIVE)
                self.assert_roles_reported(pair)
            self.await_one_active(pair)
            self.assert_roles_reported(pair)

    def assert_roles_reported(self, pair: Pair) -> None:
        """Check that events reported the roles that the hosts have."""
        wait_until(
            lambda: all(host.known_role is host.role for host in pair),
            lambda: f"reported {[str(each.known_role) for each in pair]}",
            seconds=self.environment.timeout,
        )

    @proves(RouterDriver, 7, 8)
    def test_killed_processes_leave_one_host_active(self, make_driver: MakeDriver) -> None:
        with self.pair(make_driver) as pair:
            active, standby = self.bring_pair(pair)
            site = standby.site
            outside, one = self.outside(site), self.instance(site)
            self.assert_passes(one, site, outside)
            traffic = one.traffic(site.external.address(1))
            if not standby.environment.kill_processes(site.router):
                pytest.skip("a router has no processes")
            time.sleep(self.environment.election)
            assert traffic.stop() == 0
            assert self.await_one_active(pair)[0] is active, "a dead standby became active"
            active.environment.kill_processes(site.router)
            time.sleep(self.environment.election)
            for host in self.await_one_active(pair):  # an agent does so for a lost role
                assert host.driver.converge(Update(put=host.site.wanted())).ok
            self.assert_passes(one, site, outside)

    @proves(RouterDriver, 7)
    def test_a_returning_host_does_not_preempt(self, make_driver: MakeDriver) -> None:
        with self.pair(make_driver, 100, 50) as pair:
            first, second = pair
            self.bring_host(first)
            self.await_role(first, HaRole.ACTIVE)
            self.bring_host(second)
            self.drop(first.driver, first.site)
            self.await_role(second, HaRole.ACTIVE)
            outside, one = self.outside(second.site), self.instance(second.site)
            self.assert_passes(one, second.site, outside)
            traffic = one.traffic(second.site.external.address(1))
            self.bring_host(first)
            self.await_role(first, HaRole.STANDBY)
            time.sleep(self.environment.election)
            assert traffic.stop() == 0
            assert (first.role, second.role) == (HaRole.STANDBY, HaRole.ACTIVE)

    @proves(RouterDriver, 5, 7)
    def test_an_update_of_a_running_pair_changes_no_role(self, make_driver: MakeDriver) -> None:
        with self.pair(make_driver) as pair:
            site = pair[0].site
            floating = [site.floating(50 + n, site.nets[n].address(20)) for n in range(2)]
            active, standby = self.bring_pair(pair, floating[0])
            outside = self.outside(site)
            self.instance(site, environment=standby.environment)
            self.instance(site, 1)
            self.arrives(outside, floating[0].address)
            changes = [host.changes for host in pair]
            traffic, third = outside.traffic(floating[0].address), make_net(3)
            port = third.port()
            for host in (standby, active):
                interfaces = (*host.site.full.interfaces, port)
                host.site = host.site.with_full(interfaces=interfaces)
                self.bring_host(host, *floating)
            self.arrives(outside, floating[1].address)
            other = self.environment.machine(third.id, third.interfaces(20), third.gateways())
            assert self.arrives(other, site.external.address(1)).at == outside.name
            for host in pair:
                self.drop(host.driver, floating[1])
            time.sleep(self.environment.election)
            assert traffic.stop() == 0
            assert self.await_one_active(pair)[0] is active
            assert [host.changes for host in pair] == changes, "a role changed"

    @proves(RouterDriver, 4, 7)
    def test_a_restart_of_the_drivers_changes_no_role(self, make_driver: MakeDriver) -> None:
        with self.pair(make_driver) as pair:
            site = pair[0].site
            active, standby = self.bring_pair(pair)
            outside, one = self.outside(site), self.instance(site)
            self.arrives(one, site.external.address(1))
            self.arrives(outside, site.outside_address)
            traffic, changes = one.traffic(site.external.address(1)), active.changes
            for host in pair:
                host.start()
                role = HaRole.ACTIVE if host is active else HaRole.STANDBY
                assert host.role is role, f"{host.role} after a restart"
                update = Update(put=host.site.wanted(), complete=True)
                assert host.driver.converge(update).done == {host.site.key}
            time.sleep(self.environment.election)
            assert traffic.stop() == 0
            assert (active.role, standby.role) == (HaRole.ACTIVE, HaRole.STANDBY)
            assert active.changes == changes, "a role changed"

    @proves(RouterDriver, 7)
    def test_a_host_whose_ha_port_is_not_wired_does_not_become_active(
        self, make_driver: MakeDriver
    ) -> None:
        with self.pair(make_driver) as pair:
            self.bring_host(pair[0])
            self.await_role(pair[0], HaRole.ACTIVE)
            site, environment = pair[1].site, pair[1].environment
            environment.admit(site.shared_ports)
            outcome = pair[1].driver.converge(Update(put=site.wanted()))
            assert not outcome.failed, str(outcome)
            time.sleep(self.environment.election)
            assert pair[1].role is HaRole.FAULT
            self.bring_host(pair[1])
            assert self.await_one_active(pair)[0] is pair[0]

    @proves(RouterDriver, 6, 7)
    def test_a_router_is_converted_and_dropped_without_residue(
        self, make_driver: MakeDriver
    ) -> None:
        with self.pair(make_driver) as pair:
            near, far = pair
            plain = near.site.with_full(ha=None)
            self.bring(near.driver, plain)
            outside, one = self.outside(plain), self.instance(plain)
            assert near.role is None
            self.assert_passes(one, plain, outside)
            self.bring_pair(pair)
            self.assert_passes(one, plain, outside)
            self.drop(far.driver, far.site)
            self.bring(near.driver, plain)
            assert near.role is None
            self.assert_passes(one, plain, outside)
            devices = near.driver.status(plain.router).devices
            assert devices.keys() == {port.id for port in plain.ports}
            self.bring_pair(pair)
            for host in pair:
                self.drop(host.driver, host.site)
                assert host.environment.found(host.site.router, host.site.ports) is None
