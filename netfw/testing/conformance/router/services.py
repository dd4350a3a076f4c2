"""Packet questions of address scopes, metadata, advertisements and extensions: P-9 to P-11, P-17,
P-18."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_interface, ip_network
from typing import Any
from uuid import uuid4

import pytest
from attrs import evolve

from netfw.drivers.dhcp import METADATA_ADDRESSES
from netfw.drivers.router import RouterDriver
from netfw.drivers.values.contribution import RouterContribution, RouterRule, RuleChain, RuleTable
from netfw.drivers.values.events import Event, ProcessDied
from netfw.drivers.values.pipeline_grant import GrantRequest, RegisterRequest
from netfw.drivers.values.router_values import METADATA_PORT
from netfw.errors import ConfigError, NotSupported, PartlyInvalid
from netfw.model.subnet import Ipv6Mode
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import AddressScopeId, FloatingIpId, PortId
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.router.case import FAMILIES, RouterSuite
from netfw.testing.conformance.router.environment import TCP, UDP, Machine
from netfw.testing.conformance.router.factories import Net, Site, make_net, make_site
from netfw.testing.lab.wait import wait_until

EXTENSION = "forwarder"
INJECTED = ("COMMIT", "*filter", "#", ";reboot", "$(id)", "-j", "--", "%s")
"""Words that a restore, a shell or an option parser would read as syntax."""


def scoped(site: Site, *scopes: AddressScopeId | None) -> Site:
    """Return *site* with an address scope for each interface and for the gateway, both families."""
    maps = [{4: scope, 6: scope} if scope else {} for scope in scopes]
    inside = zip(site.full.interfaces, maps, strict=False)
    ports = tuple(evolve(port, scopes=scope) for port, scope in inside)
    outside = evolve(site.gateway.port, scopes=maps[-1])
    return site.with_full(interfaces=ports).with_gateway(port=outside)


def forward(
    address: IpAddress, protocol: str, ports: str, to: str, id: FloatingIpId | None = None
) -> RouterContribution:
    """Return the contribution of an extension that forwards *ports* of *address*."""
    words = ("-d", f"{address}/32", "-p", protocol, "--dport", ports, "-j", "DNAT")
    rule = RouterRule(
        table=RuleTable.NAT,
        chain=RuleChain.PREROUTING,
        words=(*words, "--to-destination", to),
        floating_ip=id,
    )
    return RouterContribution(
        owner=EXTENSION, rules=(rule,), addresses=(ip_interface((address, 32)),)
    )


def drop(
    in_port: PortId | None, out_port: PortId | None = None, *, local: bool = False
) -> RouterRule:
    """Return a rule that drops what comes in and leaves by these ports."""
    return RouterRule(
        table=RuleTable.FILTER,
        chain=RuleChain.FORWARD,
        words=("-j", "DROP"),
        in_port=in_port,
        out_port=out_port,
        local=local,
    )


def of_families(*rules: RouterRule) -> RouterContribution:
    """Return the contribution of an extension that has *rules* in both families."""
    made = tuple(evolve(rule, ip_version=version) for rule in rules for version in FAMILIES)
    return RouterContribution(owner=EXTENSION, rules=made)


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


class RouterServicesConformance(RouterSuite):
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

    @proves(RouterDriver, 2)
    @pytest.mark.parametrize("protocol", [TCP, UDP])
    def test_a_contribution_forwards_ports_and_goes_with_its_extension(
        self, driver: RouterDriver, protocol: str
    ) -> None:
        driver.grant(GrantRequest(owner=EXTENSION))
        site = make_site()
        shared, inside = site.external.address(60), site.nets[0].address(20)
        single = forward(shared, protocol, "2222", f"{inside}:80")
        ranged = forward(shared, protocol, "5000:5002", f"{inside}:5000-5002")
        both = evolve(single, rules=(*single.rules, *ranged.rules))
        self.bring(driver, site.with_state(contributions=(both,)))
        one, outside = self.instance(site), self.outside(site)
        for port in (2222, 5000, 5002):
            assert self.arrives(outside, shared, protocol, port).at == one.name
        self.assert_unreachable(outside, shared, protocol, 8080)
        assert self.arrives(one, site.external.address(1)).source == site.outside_address
        self.bring(driver, site)
        self.assert_unreachable(outside, shared, protocol, 2222)
        assert self.arrives(one, site.external.address(1)).source == site.outside_address

    @proves(RouterDriver, 3)
    def test_a_refused_rule_of_an_extension_fails_its_floating_ip_alone(
        self, driver: RouterDriver
    ) -> None:
        driver.grant(GrantRequest(owner=EXTENSION))
        site = make_site()
        inside = site.nets[0].address(20)
        good, bad = (site.floating(number, inside) for number in (60, 61))
        one, other = (
            forward(each.address, TCP, "2222", f"{inside}:80", each.key.floating_ip)
            for each in (good, bad)
        )
        addresses = (*one.addresses, *other.addresses)
        both = evolve(one, rules=(*one.rules, *other.rules), addresses=addresses)
        forwarding = site.with_state(contributions=(both,))
        self.bring(driver, site)
        with self.environment.refuse_rules(bad.address):
            outcome = driver.converge(Update(put={site.key: forwarding.state}))
            assert outcome.failed.keys() == {bad.key}, str(outcome)
            assert outcome.done == {site.key}, str(outcome)
        instance, outside = self.instance(site), self.outside(site)
        assert self.arrives(outside, good.address, TCP, 2222).at == instance.name
        self.assert_unreachable(outside, bad.address, TCP, 2222)
        self.bring(driver, forwarding)
        assert self.arrives(outside, bad.address, TCP, 2222).at == instance.name

    @proves(RouterDriver, 3)
    @pytest.mark.parametrize("version", FAMILIES)
    def test_a_rule_that_names_ports_concerns_packets_by_them_alone(
        self, driver: RouterDriver, version: int
    ) -> None:
        driver.grant(GrantRequest(owner=EXTENSION))
        site = make_site(make_net(1), make_net(2), make_net(3))
        first, second, third = (each.id for each in site.full.interfaces)
        absent = PortId(uuid4())
        dropped = (drop(third, second), drop(absent), drop(None, absent), drop(first, absent))
        self.bring(driver, site.with_state(contributions=(of_families(*dropped),)))
        one, two, three = (self.instance(site, net) for net in range(3))
        addresses = [net.address(20, version) for net in site.nets]
        assert self.arrives(three, addresses[0]).at == one.name
        assert self.arrives(one, addresses[1]).at == two.name
        self.assert_unreachable(three, addresses[1])
        self.outside(site)
        outside = site.external.address(1, version)
        self.arrives(one, outside)
        both = of_families(drop(first), drop(None, second))
        self.bring(driver, site.with_state(contributions=(both,)))
        self.arrives(three, outside)
        self.assert_unreachable(one, outside)
        self.assert_unreachable(three, addresses[1])

    @proves(RouterDriver, 2)
    def test_the_gateway_answers_for_proxied_addresses_alone(self, driver: RouterDriver) -> None:
        driver.grant(GrantRequest(owner=EXTENSION))
        external = Net(blocks=(ip_network("203.0.113.0/24"), ip_network("fd00:ff::/64")))
        site = make_site(external=external)
        proxied, other = (site.nets[0].address(number, 6) for number in (20, 21))
        one = self.instance(site)
        self.instance(site, number=21)
        self.bring(driver, site)
        first, second = (self.neighbour(site, number) for number in (2, 3))
        self.assert_unreachable(first, proxied)
        made = RouterContribution(owner=EXTENSION, proxied=(IPv6Address(proxied),))
        answering = site.with_state(contributions=(made,))
        self.bring(driver, answering)
        assert self.arrives(first, proxied).at == one.name
        self.assert_unreachable(first, other)
        self.bring(driver, site)
        self.assert_unreachable(second, proxied)

    def neighbour(self, site: Site, number: int) -> Machine:
        """Return a machine outside for which all inside addresses are on its own link."""
        address = site.external.address(number, 6)
        return self.environment.machine(site.external.id, [ip_interface(f"{address}/16")], [])

    @proves(RouterDriver, 3)
    def test_rules_of_a_subchain_concern_what_enters_it(self, driver: RouterDriver) -> None:
        driver.grant(GrantRequest(owner=EXTENSION))
        site = make_site(make_net(1), make_net(2), make_net(3))
        first, second, third = (each.id for each in site.full.interfaces)
        spared = evolve(drop(second), words=("-j", "RETURN"), subchain="one")
        rules = (
            *(evolve(drop(port), words=(), enter="one") for port in (first, second)),
            evolve(drop(third), words=(), enter="two"),
            spared,
            evolve(drop(None), subchain="one"),
        )
        self.bring(driver, site.with_state(contributions=(of_families(*rules),)))
        one, two, three = (self.instance(site, net) for net in range(3))
        addresses = [net.address(20) for net in site.nets]
        assert self.arrives(two, addresses[2]).at == three.name
        assert self.arrives(three, addresses[1]).at == two.name
        self.assert_unreachable(one, addresses[2])
        self.bring(driver, site)
        assert self.arrives(one, addresses[2]).at == three.name

    @proves(RouterDriver, 3)
    def test_a_refused_rule_with_a_subject_is_left_out_alone(self, driver: RouterDriver) -> None:
        driver.grant(GrantRequest(owner=EXTENSION))
        site = make_site()
        inside = site.nets[0].address(20)
        good, bad = site.external.address(60), site.external.address(61)
        one, other = (forward(each, TCP, "2222", f"{inside}:80") for each in (good, bad))
        optional = tuple(evolve(rule, subject="the second port") for rule in other.rules)
        addresses = (*one.addresses, *other.addresses)
        both = evolve(one, rules=(*one.rules, *optional), addresses=addresses)
        forwarding = site.with_state(contributions=(both,))
        self.bring(driver, site)
        with self.environment.refuse_rules(bad):
            outcome = driver.converge(Update(put={site.key: forwarding.state}))
            error = outcome.failed.get(site.key)
            assert isinstance(error, PartlyInvalid), str(outcome)
            assert error.problems.keys() == {"the second port"}, str(outcome)
        instance, outside = self.instance(site), self.outside(site)
        assert self.arrives(outside, good, TCP, 2222).at == instance.name
        self.assert_unreachable(outside, bad, TCP, 2222)
        self.bring(driver, forwarding)
        assert self.arrives(outside, bad, TCP, 2222).at == instance.name

    @proves(RouterDriver, 3)
    @pytest.mark.parametrize(
        "word", ["COMMIT", "*filter", "#", ";reboot", "$(id)", "-j", "--", "%s"]
    )
    def test_a_word_of_a_rule_is_never_syntax(self, driver: RouterDriver, word: str) -> None:
        """Check that a word is taken literally or refused for its router alone."""
        driver.grant(GrantRequest(owner=EXTENSION))
        site, other = make_site(), make_site(make_net(5))
        odd = RouterRule(
            table=RuleTable.FILTER,
            chain=RuleChain.FORWARD,
            words=("-m", "comment", "--comment", word, "-j", "RETURN"),
        )
        for each in (site, other):
            self.environment.admit(each.ports)
        strange = site.with_state(
            contributions=(RouterContribution(owner=EXTENSION, rules=(odd,)),)
        )
        outcome = driver.converge(Update(put={strange.key: strange.state, other.key: other.state}))
        assert other.key in outcome.done, str(outcome)
        assert strange.key in {*outcome.done, *outcome.failed}, str(outcome)
        one, outside = self.instance(other), self.outside(other)
        assert self.arrives(one, other.external.address(1)).at == outside.name
        self.bring(driver, site)
        self.outside(site)
        arrival = self.arrives(self.instance(site), site.external.address(1))
        assert arrival.source == site.outside_address

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
