"""Packet questions of address scopes, metadata and advertisements, and grants: P-9 to P-11."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any
from uuid import uuid4

import pytest
from attrs import evolve

from netfw.drivers.dhcp import METADATA_ADDRESSES
from netfw.drivers.router import RouterDriver
from netfw.drivers.values.events import Event, ProcessDied
from netfw.drivers.values.pipeline_grant import GrantRequest, RegisterRequest
from netfw.drivers.values.router_values import METADATA_PORT
from netfw.errors import ConfigError, NotSupported
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import AddressScopeId
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.router.case import FAMILIES
from netfw.testing.conformance.router.contributions import RouterContributionsConformance
from netfw.testing.conformance.router.environment import Machine
from netfw.testing.conformance.router.factories import Site, make_net, make_site
from netfw.testing.lab.wait import wait_until


def scoped(site: Site, *scopes: AddressScopeId | None) -> Site:
    """Return *site* with an address scope for each interface and for the gateway, both families."""
    maps = [{4: scope, 6: scope} if scope else {} for scope in scopes]
    inside = zip(site.full.interfaces, maps, strict=False)
    ports = tuple(evolve(port, scopes=scope) for port, scope in inside)
    outside = evolve(site.gateway.port, scopes=maps[-1])
    return site.with_full(interfaces=ports).with_gateway(port=outside)


def advertising(site: Site, mode: Ipv6Mode, mtu: int = 1500, **values: Any) -> Site:
    """Return *site* with the IPv6 subnet of its first network advertised."""
    interface, *others = site.full.interfaces
    subnets = tuple(
        evolve(subnet, ipv6_ra_mode=mode, ipv6_address_mode=mode, **values)
        if subnet.ip_version == 6
        else subnet
        for subnet in interface.subnets
    )
    advertised = evolve(interface, subnets=subnets, mtu=mtu)
    return site.with_full(interfaces=(advertised, *others))


class RouterServicesConformance(RouterContributionsConformance):
    """What a router does beside forwarding."""

    @proves(RouterDriver, 1)
    @pytest.mark.parametrize("version", FAMILIES)
    def test_two_scopes_are_kept_apart(self, driver: RouterDriver, version: int) -> None:
        one, two = AddressScopeId(uuid4()), AddressScopeId(uuid4())
        plain = make_site()
        targets = [net.address(20, version) for net in plain.nets]
        self.bring(driver, plain)
        source, _ = self.instance(plain, 0), self.instance(plain, 1)
        self.arrives(source, targets[1])
        for scopes in ((one, two, None), (one, None, None), (None, two, None)):
            self.bring(driver, scoped(plain, *scopes))
            self.assert_unreachable(source, targets[1])
        self.bring(driver, scoped(plain, one, one, None))
        self.arrives(source, targets[1])

    @proves(RouterDriver, 1)
    def test_one_scope_inside_and_outside_is_not_translated(self, driver: RouterDriver) -> None:
        one, two = AddressScopeId(uuid4()), AddressScopeId(uuid4())
        site = scoped(make_site(), one, two, one)
        self.bring(driver, site)
        same, other = self.instance(site, 0), self.instance(site, 1)
        outside = self.environment.machine(
            site.external.id, site.external.interfaces(1), (site.outside_address,)
        )
        target = site.external.address(1)
        assert self.arrives(same, target).source == site.nets[0].address(20)
        assert self.arrives(outside, site.nets[0].address(20)).at == same.name
        assert self.arrives(other, target).source == site.outside_address
        self.assert_unreachable(outside, site.nets[1].address(20))

    @proves(RouterDriver, 1, 2)
    def test_a_floating_ip_crosses_scopes(self, driver: RouterDriver) -> None:
        one, two = AddressScopeId(uuid4()), AddressScopeId(uuid4())
        site = scoped(make_site(), one, one, two)
        floating = site.floating(50, site.nets[0].address(20))
        self.bring(driver, site, floating)
        inside, outside = self.instance(site), self.outside(site)
        assert self.arrives(outside, floating.address).at == inside.name
        assert self.arrives(inside, site.external.address(1)).source == floating.address

    @proves(RouterDriver, 11)
    @pytest.mark.parametrize("version", FAMILIES)
    def test_instances_reach_the_metadata_proxy(self, driver: RouterDriver, version: int) -> None:
        site = make_site()
        self.bring(driver, site)
        self.environment.listen_metadata(site.router, site.state)
        one = self.instance(site)
        target = METADATA_ADDRESSES[version].ip
        seen = wait_until(lambda: one.metadata(target), seconds=self.environment.timeout)
        assert version == 6 or seen == site.nets[0].address(20)

    @proves(RouterDriver, 11)
    def test_nothing_else_reaches_the_metadata_port(self, driver: RouterDriver) -> None:
        site = make_site()
        self.bring(driver, site)
        self.environment.listen_metadata(site.router, site.state)
        one, outside = self.instance(site), self.outside(site)
        self.arrives(one, site.nets[0].address(1))
        for version in FAMILIES:
            inside_address = site.nets[0].address(1, version)
            assert one.connect(inside_address, METADATA_PORT) is None
            assert outside.connect(site.external.address(10, version), METADATA_PORT) is None

    @proves(RouterDriver, 11)
    def test_a_router_without_metadata_redirects_nothing(self, driver: RouterDriver) -> None:
        site = make_site()
        self.bring(driver, site.with_state(metadata_port=None))
        self.environment.listen_metadata(site.router, site.state)
        one = self.instance(site)
        self.arrives(one, site.nets[0].address(1))
        assert one.metadata(METADATA_ADDRESSES[4].ip) is None

    @proves(RouterDriver, 12)
    @pytest.mark.parametrize("mode", Ipv6Mode)
    def test_a_subnet_is_advertised_in_its_mode(self, driver: RouterDriver, mode: Ipv6Mode) -> None:
        site, servers = make_site(), (ip_address("2001:db8::53"),)
        self.bring(driver, advertising(site, mode, dns_nameservers=servers, mtu=1400))
        one, silent = self.instance(site, 0), self.instance(site, 1)
        found = wait_until(one.advertisement, seconds=self.environment.timeout)
        assert found is not None
        assert found.prefixes == {str(site.nets[0].blocks[1])}
        assert (found.mode, found.mtu) == (mode, 1400)
        assert found.name_servers == set(servers)
        assert silent.advertisement() is None
        self.bring(driver, site)
        prefix = str(site.nets[0].blocks[1])
        wait_until(
            lambda: self.is_withdrawn(one, prefix),
            f"{prefix} is not withdrawn",
            seconds=self.environment.timeout,
        )

    @proves(RouterDriver, 12)
    def test_advertisements_of_two_routers_on_one_network_have_different_sources(
        self, driver: RouterDriver
    ) -> None:
        """Hosts know routers by these: one that ends must not remove another one's routes."""
        shared, sources = make_net(1), set[IpAddress | None]()
        for number in (10, 11):
            site = advertising(make_site(shared, number=number), Ipv6Mode.SLAAC)
            self.bring(driver, site)
            one = self.instance(site, number=number)
            found = wait_until(one.advertisement, seconds=self.environment.timeout)
            assert found is not None
            sources.add(found.source)
            self.drop(driver, site)
        assert len(sources) == 2, sources

    def is_withdrawn(self, machine: Machine, prefix: str) -> bool:
        """Return whether an advertisement withdraws the prefix: silence would leave it in use."""
        found = machine.advertisement()
        return found is not None and prefix in found.withdrawn - found.prefixes

    @proves(RouterDriver, 8)
    def test_a_process_that_dies_is_restarted(self, driver: RouterDriver) -> None:
        site = advertising(make_site(), Ipv6Mode.SLAAC)
        events: list[Event] = []
        driver.watch(events.append)
        self.bring(driver, site)
        one = self.instance(site)
        wait_until(one.advertisement, seconds=self.environment.timeout)
        if not self.environment.kill_processes(site.router):
            pytest.skip("the driver runs no process for a router")
        wait_until(
            lambda: any(isinstance(e, ProcessDied) and site.key in e.keys for e in events),
            seconds=self.environment.timeout,
        )
        wait_until(one.advertisement, seconds=self.environment.timeout)

    @proves(RouterDriver, 9)
    def test_grants_are_equal_for_equal_requests(self, driver: RouterDriver) -> None:
        first = GrantRequest(owner="one", marks=(RegisterRequest("seen", 1),))
        second = GrantRequest(owner="two", marks=(RegisterRequest("seen", 1),))
        one, two = driver.grant(first), driver.grant(second)
        assert driver.grant(first) == one
        assert one.prefix != two.prefix
        marks = [
            {*range(each.first, each.first + each.bits)}
            for grant in (one, two)
            for each in grant.marks.values()
        ]
        assert not marks[0] & marks[1]

    @proves_raise(RouterDriver, "grant", NotSupported, ConfigError)
    def test_a_grant_that_is_impossible_is_refused(self, driver: RouterDriver) -> None:
        with pytest.raises(NotSupported):
            driver.grant(GrantRequest(owner="meters", meters=1))
        requests = [
            GrantRequest(owner=f"greedy{number}", marks=(RegisterRequest("all", 8),))
            for number in range(9)
        ]
        with pytest.raises(ConfigError, match="greedy0"):
            [driver.grant(request) for request in requests]
