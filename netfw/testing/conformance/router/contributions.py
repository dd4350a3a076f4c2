"""Packet questions of what extensions contribute to routers: P-17, P-18."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_interface, ip_network
from uuid import uuid4

import pytest
from attrs import evolve

from netfw.drivers.router import RouterDriver
from netfw.drivers.values.pipeline_grant import GrantRequest
from netfw.drivers.values.router_contribution import (
    RouterContribution,
    RouterRule,
    RuleChain,
    RuleTable,
)
from netfw.errors import PartlyInvalid
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import FloatingIpId, PortId
from netfw.plan import Update
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.router.case import FAMILIES, RouterCase
from netfw.testing.conformance.router.environment import TCP, UDP, Machine
from netfw.testing.conformance.router.factories import RoutedNetwork, Site, make_net, make_site

EXTENSION = "forwarder"
INJECTED = ("COMMIT", "*filter", "#", ";reboot", "$(id)", "-j", "--", "%s")
"""Words that a restore, a shell or an option parser would read as syntax."""


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


class RouterContributionsConformance(RouterCase):
    """Rules, addresses and proxied addresses that extensions contribute."""

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
        external = RoutedNetwork(blocks=(ip_network("203.0.113.0/24"), ip_network("fd00:ff::/64")))
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
    @pytest.mark.parametrize("word", INJECTED)
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
        echo = self.arrives(self.instance(site), site.external.address(1))
        assert echo.source == site.outside_address
