"""Questions of delegated prefixes, to routers behind a provider."""

from __future__ import annotations

from ipaddress import IPv6Network, ip_interface
from typing import Final
from uuid import uuid4

import pytest
from attrs import define, evolve, field

from netfw.drivers.router import RouterCapability, RouterDriver
from netfw.drivers.values.events import Event
from netfw.drivers.values.router_values import PrefixDelegated, RouterPort
from netfw.model.subnet import Ipv6Mode, Subnet
from netfw.model.values.address import IpNetwork, Mac
from netfw.model.values.ids import SubnetId
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.router.case import MakeDriver
from netfw.testing.conformance.router.distributed_factories import (
    DistributedSite,
    bring_entries,
    entries,
    make_distributed,
)
from netfw.testing.conformance.router.environment import Machine, PrefixProvider
from netfw.testing.conformance.router.factories import (
    RoutedNetwork,
    Site,
    make_external,
    make_net,
    make_site,
)
from netfw.testing.conformance.router.high_availability import RouterHaConformance
from netfw.testing.lab.wait import wait_until

FIRST: Final = IPv6Network("2001:db8:1000::/48")
SECOND: Final = IPv6Network("2001:db8:2000::/48")
PRINTABLE: Final = Mac("fa:16:3e:41:42:43")
"""A MAC address whose last octets are printable characters."""
SOON: Final = 12
"""Seconds for which a prefix is valid that is to expire."""


def next_subnet() -> SubnetId:
    """Return the id of a new subnet."""
    return SubnetId(uuid4())


def delegate_to(port: RouterPort, *subnets: SubnetId) -> RouterPort:
    """Return *port* with delegated *subnets*, to which nothing is delegated yet."""
    return evolve(port, delegated=frozenset(subnets))


def delegating(site: Site, *subnets: SubnetId) -> Site:
    """Return *site* with a delegated subnet on each of its first interfaces."""
    ports = site.full.interfaces
    first = (delegate_to(port, id) for port, id in zip(ports, subnets, strict=False))
    return site.with_full(interfaces=(*first, *ports[len(subnets) :]))


def renumbered(site: Site, subnet: SubnetId, prefix: IPv6Network) -> Site:
    """Return *site* as it is desired after its first subnet has got *prefix*: no other IPv6."""
    port, *others = site.full.interfaces
    value = Subnet(
        id=subnet,
        network_id=port.network,
        cidr=prefix,
        gateway=prefix[1],
        ipv6_ra_mode=Ipv6Mode.SLAAC,
        ipv6_address_mode=Ipv6Mode.SLAAC,
    )
    own = (*(each for each in port.addresses if each.version == 4), ip_interface((prefix[1], 64)))
    subnets = (*(each for each in port.subnets if each.ip_version == 4), value)
    return site.with_full(interfaces=(evolve(port, addresses=own, subnets=subnets), *others))


@define(eq=False)
class PrefixEvents:
    """What a driver reports on prefixes, in order."""

    driver: RouterDriver
    timeout: float
    events: list[PrefixDelegated] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.driver.watch(self._record)

    def _record(self, event: Event) -> None:
        if isinstance(event, PrefixDelegated):
            self.events.append(event)

    def of(self, subnet: SubnetId) -> list[PrefixDelegated]:
        """Return the events of a subnet that were not taken."""
        return [event for event in self.events if event.subnet == subnet]

    def take(self, site: Site | DistributedSite, subnet: SubnetId) -> IpNetwork | None:
        """Wait for the next event of a subnet of *site*, and return its prefix."""
        wait_until(lambda: self.of(subnet), f"no event of subnet {subnet}", seconds=self.timeout)
        event = self.of(subnet)[0]
        self.events.remove(event)
        assert event.router == site.router
        return event.prefix

    def take_prefix(
        self, site: Site | DistributedSite, subnet: SubnetId, pool: IPv6Network
    ) -> IPv6Network:
        """Take the next event, and check that it has a prefix of *pool*."""
        prefix = self.take(site, subnet)
        assert isinstance(prefix, IPv6Network), f"{prefix} in place of a prefix of {pool}"
        assert prefix.prefixlen == 64
        assert prefix.subnet_of(pool), f"{prefix} is not of {pool}"
        return prefix


class RouterDelegationConformance(RouterHaConformance):
    """Prefixes that a provider delegates to routers."""

    def provide(
        self, external: RoutedNetwork, pool: IPv6Network = FIRST, **options: int
    ) -> PrefixProvider:
        """Return a provider on *external* that delegates prefixes of *pool*."""
        provider = self.environment.prefix_provider(external.id, external.interfaces(1))
        provider.delegate(pool, **options)
        return provider

    def watch(self, driver: RouterDriver) -> PrefixEvents:
        """Return the events of a driver that delegates prefixes; skip the test for another one."""
        self.require(driver, RouterCapability.PREFIX_DELEGATION)
        return PrefixEvents(driver, self.environment.timeout)

    @proves(RouterDriver, 17)
    def test_a_prefix_is_requested_for_each_subnet(self, driver: RouterDriver) -> None:
        """Two subnets, of a client whose identity a tool may print as text."""
        events = self.watch(driver)
        one, two = next_subnet(), next_subnet()
        site = delegating(make_site(), one, two)
        site = site.with_gateway(port=evolve(site.gateway.port, mac=PRINTABLE))
        self.provide(site.external)
        self.bring(driver, site)
        prefixes = {events.take_prefix(site, subnet, FIRST) for subnet in (one, two)}
        assert len(prefixes) == 2, f"{prefixes} for two subnets"
        found = self.environment.found(site.router, site.ports)
        assert found is not None
        for port in site.full.interfaces:
            assert found.addresses[port.id] == set(port.addresses), "renumbered by the driver"

    @proves(RouterDriver, 17)
    def test_another_prefix_is_reported_and_takes_the_place_of_the_former(
        self, driver: RouterDriver
    ) -> None:
        events, subnet = self.watch(driver), next_subnet()
        site = delegating(make_site(make_net(1)), subnet)
        provider = self.provide(site.external)
        self.bring(driver, site)
        first = events.take_prefix(site, subnet, FIRST)
        self.bring(driver, renumbered(site, subnet, first))
        net = site.nets[0]
        instance = self.environment.machine(net.id, [ip_interface((first[20], 64))], [first[1]])
        self.arrives(instance, first[1])
        self.await_advertised(instance, {first}, set())
        provider.delegate(SECOND)
        second = events.take_prefix(site, subnet, SECOND)
        self.bring(driver, renumbered(site, subnet, second))
        self.await_advertised(instance, {second}, {first})

    def await_advertised(
        self, machine: Machine, prefixes: set[IPv6Network], withdrawn: set[IPv6Network]
    ) -> None:
        """Wait until a router advertises *prefixes* alone, and has *withdrawn* others."""

        def is_advertised() -> bool:
            found = machine.advertisement()
            if found is None:
                return False
            gone = {str(each) for each in withdrawn}
            return found.prefixes == {*map(str, prefixes)} and gone <= found.withdrawn

        what = f"not advertised: {prefixes} without {withdrawn}"
        wait_until(is_advertised, what, seconds=self.environment.timeout)

    @proves(RouterDriver, 17)
    def test_an_expired_prefix_is_reported(self, driver: RouterDriver) -> None:
        events, subnet = self.watch(driver), next_subnet()
        site = delegating(make_site(make_net(1)), subnet)
        provider = self.provide(site.external, valid=SOON)
        self.bring(driver, site)
        events.take_prefix(site, subnet, FIRST)
        provider.stop()
        assert events.take(site, subnet) is None

    @proves(RouterDriver, 17)
    def test_a_prefix_survives_restarts_of_the_driver_and_its_processes(
        self, make_driver: MakeDriver
    ) -> None:
        driver = make_driver()
        events, subnet = self.watch(driver), next_subnet()
        site = delegating(make_site(make_net(1)), subnet)
        provider = self.provide(site.external)
        self.bring(driver, site)
        first = events.take_prefix(site, subnet, FIRST)
        driver = make_driver()
        events = self.watch(driver)
        for _ in range(2):
            self.bring(driver, site)
        assert events.take(site, subnet) == first
        self.environment.kill_processes(site.router)
        provider.delegate(SECOND)
        events.take_prefix(site, subnet, SECOND)
        assert not events.of(subnet), "a prefix is reported once"

    @proves(RouterDriver, 17)
    def test_another_subnet_leaves_a_prefix_as_it_is(self, driver: RouterDriver) -> None:
        """Whichever of the subnets has the lower id."""
        events = self.watch(driver)
        low, middle, high = sorted(next_subnet() for _ in range(3))
        site = make_site(make_net(1), make_net(2), make_net(3))
        self.provide(site.external)
        self.bring(driver, delegating(site, middle))
        first = events.take_prefix(site, middle, FIRST)
        both = delegating(site, middle, low, high)
        self.bring(driver, both)
        others = {events.take_prefix(both, each, FIRST) for each in (low, high)}
        assert first not in others
        self.bring(driver, delegating(site, middle))
        self.bring(driver, both)
        assert not events.of(middle), "its prefix has not changed"

    @proves(RouterDriver, 17)
    @pytest.mark.parametrize("lost", ["gateway", "interface"])
    def test_without_gateway_or_interface_no_prefix_is_requested(
        self, driver: RouterDriver, lost: str
    ) -> None:
        events, external = self.watch(driver), make_external()
        one, two = next_subnet(), next_subnet()
        site = delegating(make_site(make_net(1), external=external), one)
        other = delegating(make_site(make_net(2), external=external, number=11), two)
        provider = self.provide(external)
        for each, subnet in ((site, one), (other, two)):
            self.bring(driver, each)
            events.take_prefix(each, subnet, FIRST)
        bare = site.with_full(gateway=None)
        self.bring(driver, bare if lost == "gateway" else site.with_full(interfaces=()))
        events.events.clear()
        provider.delegate(SECOND)
        events.take_prefix(other, two, SECOND)
        assert not events.of(one), f"requested without the {lost}"
        self.bring(driver, site)
        events.take_prefix(site, one, SECOND)

    @proves(RouterDriver, 17)
    def test_the_active_host_alone_requests_a_prefix_and_the_next_one_keeps_it(
        self, make_driver: MakeDriver
    ) -> None:
        self.require(make_driver(), RouterCapability.PREFIX_DELEGATION)
        with self.pair(make_driver) as pair:
            events, subnet = {id(host): self.watch(host.driver) for host in pair}, next_subnet()
            for host in pair:
                host.site = delegating(host.site, subnet)
            self.provide(pair[0].site.external)
            active, standby = self.bring_pair(pair)
            first = events[id(active)].take_prefix(active.site, subnet, FIRST)
            assert not events[id(standby)].of(subnet), "requested by a standby"
            self.drop(active.driver, active.site)
            assert events[id(standby)].take(standby.site, subnet) == first
            self.drop(standby.driver, standby.site)

    @proves(RouterDriver, 17)
    def test_of_a_distributed_router_the_central_part_requests_a_prefix(
        self, driver: RouterDriver
    ) -> None:
        self.require(driver, RouterCapability.DISTRIBUTED)
        events, external = self.watch(driver), make_external()
        one, two = next_subnet(), next_subnet()
        plain = delegating(make_site(make_net(2), external=external, number=11), two)
        site = make_distributed(make_net(1), external=external)
        local = evolve(site.local, interfaces=(delegate_to(site.local.interfaces[0], one),))
        central = evolve(site.central, ports=(delegate_to(site.central.ports[0], one),))
        self.environment.admit(site.ports)
        self.provide(external)
        bring_entries(driver, entries(site.with_state(local=local, central=None)))
        self.bring(driver, plain)
        events.take_prefix(plain, two, FIRST)
        assert not events.of(one), "requested by a local part"
        bring_entries(driver, entries(site.with_state(local=local, central=central)))
        events.take_prefix(site, one, FIRST)

    @proves(RouterDriver, 17)
    def test_delegated_subnets_do_not_disturb_a_driver_without_the_capability(
        self, driver: RouterDriver
    ) -> None:
        if RouterCapability.PREFIX_DELEGATION in driver.describe().capabilities:
            pytest.skip("the driver declares it")
        site = delegating(make_site(make_net(1)), next_subnet())
        self.bring(driver, site)
        assert driver.converge(Update(put=site.wanted())).ok
        self.outside(site)
        self.arrives(self.instance(site), site.external.address(1))
