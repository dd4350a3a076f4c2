"""Router firewalls on the Linux router driver, with real packets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.l3_extension import ExtendedRouter
from netfw.drivers.router import RouterDriver
from netfw.drivers.values.router_values import RouterState
from netfw.model.router import Router
from netfw.model.router_firewall import FirewallAction, FirewallGroup, FirewallRule
from netfw.model.values.address import as_network
from netfw.model.values.ids import FirewallGroupId, FirewallRuleId, RouterId
from netfw.model.values.port_range import PortRange
from netfw.model.values.protocol import ICMP
from netfw.model.values.protocol import TCP as TCP_NUMBER
from netfw.plan import Update
from netfw.testing.conformance.router.case import FAMILIES, MakeDriver, RouterCase
from netfw.testing.conformance.router.distributed_factories import (
    DistributedSite,
    make_agent_gateway,
    make_distributed,
)
from netfw.testing.conformance.router.environment import TCP, RouterEnvironment
from netfw.testing.conformance.router.factories import Site, make_net, make_site
from netfw.testing.lab.wait import wait_until
from netfw_drivers.l3_extensions.router_firewall import RouterFirewallExtension
from tests.lab.backends.linux_router.environment import LinuxRouterEnvironment

pytestmark = pytest.mark.services

WEB = PortRange.single(80)


def rule(action: FirewallAction = FirewallAction.ALLOW, **values: Any) -> FirewallRule:
    return FirewallRule(id=FirewallRuleId(UUID(int=1)), action=action, **values)


def both(**values: Any) -> tuple[FirewallRule, ...]:
    """Return a rule that allows something in both families."""
    return tuple(rule(ip_version=version, **values) for version in FAMILIES)


def group(number: int, site: Site | DistributedSite, *nets: int, **rules: Any) -> FirewallGroup:
    """Return a group of the interfaces on some networks of *site*."""
    part = site.state.full or site.state.local
    assert part is not None
    ports = tuple(part.interfaces[net].id for net in nets)
    return FirewallGroup(id=FirewallGroupId(UUID(int=number)), ports=ports, **rules)


class TestRouterFirewall(RouterCase):
    """Packets between networks, and to and from outside."""

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[RouterEnvironment]:
        with LinuxRouterEnvironment() as environment:
            yield environment

    def guarded(
        self, driver: RouterDriver, id: RouterId, state: RouterState, *groups: FirewallGroup
    ) -> RouterState:
        """Return *state* with what the extension contributes for *groups*."""
        extension = RouterFirewallExtension()
        grant = driver.grant(extension.grant_request())
        view = ExtendedRouter(router=Router(id=id, firewall_groups=groups), state=state)
        made = extension.contribute(id, view, grant)
        return evolve(state, contributions=() if made is None else (made,))

    def guard(self, driver: RouterDriver, site: Site, *groups: FirewallGroup) -> Site:
        """Bring *site* with the firewall *groups*; converging it again changes nothing."""
        state = self.guarded(driver, site.router, site.state, *groups)
        with_rules = evolve(site, state=state)
        self.bring(driver, with_rules)
        update = Update(put=with_rules.wanted())
        assert not driver.plan(update, driver.observe(None))  # type: ignore[attr-defined]
        return with_rules

    @pytest.mark.spec("L3-81")
    @pytest.mark.parametrize("version", FAMILIES)
    def test_ports_of_a_group_are_closed_but_for_its_rules(
        self, make_driver: MakeDriver, version: int
    ) -> None:
        driver, site = make_driver(), make_site(make_net(1), make_net(2), make_net(3))
        self.bring(driver, site)
        one, two, three = (self.instance(site, net) for net in range(3))
        addresses = [net.address(20, version) for net in site.nets]
        for net in (0, 2):
            self.arrives(two, addresses[net], TCP, 80)
        web = both(protocol=TCP_NUMBER, destination_ports=WEB)
        self.guard(driver, site, group(1, site, 0, ingress=web))
        assert self.arrives(two, addresses[0], TCP, 80).at == one.name
        self.assert_unreachable(two, addresses[0], TCP, 8080)
        self.assert_unreachable(two, addresses[0])
        self.assert_unreachable(one, addresses[1], TCP, 80)
        assert self.arrives(two, addresses[2]).at == three.name
        self.guard(driver, site)
        assert self.arrives(two, addresses[0]).at == one.name

    @pytest.mark.spec("L3-81")
    def test_packets_between_two_groups_pass_both(self, make_driver: MakeDriver) -> None:
        driver, site = make_driver(), make_site()
        one, two = self.instance(site, 0), self.instance(site, 1)
        first, second = (net.address(20) for net in site.nets)
        web = both(protocol=TCP_NUMBER, destination_ports=PortRange(79, 80))
        out = group(1, site, 0, egress=both())
        self.guard(driver, site, out, group(2, site, 1, ingress=web))
        assert self.arrives(one, second, TCP, 80).at == two.name
        self.assert_unreachable(one, second, TCP, 8080)
        self.guard(driver, site, out, group(2, site, 1))
        self.assert_unreachable(one, second, TCP, 80)
        self.assert_unreachable(two, first, TCP, 80)

    @pytest.mark.spec("L3-81")
    def test_the_first_rule_that_matches_decides(self, make_driver: MakeDriver) -> None:
        driver, site = make_driver(), make_site()
        one, two = self.instance(site, 0), self.instance(site, 1)
        target = site.nets[1].address(20)
        source = as_network(f"{site.nets[0].address(20)}/32")
        denied = rule(FirewallAction.DENY, source=source, protocol=TCP_NUMBER)
        self.guard(driver, site, group(1, site, 0, egress=(denied, rule())))
        assert self.arrives(one, target).at == two.name
        self.assert_unreachable(one, target, TCP, 80)
        self.guard(driver, site, group(1, site, 0, egress=(rule(), denied)))
        assert self.arrives(one, target, TCP, 80).at == two.name

    @pytest.mark.spec("L3-81")
    @pytest.mark.parametrize("version", FAMILIES)
    def test_a_denied_connection_is_cut_and_an_allowed_one_goes_on(
        self, make_driver: MakeDriver, version: int
    ) -> None:
        driver, site = make_driver(), make_site()
        one, two = self.instance(site, 0), self.instance(site, 1)
        target = site.nets[1].address(20, version)
        self.guard(driver, site, group(1, site, 0, egress=both()))
        self.arrives(one, target, TCP, 80)
        web, other = (self.connected(one, target, port) for port in (80, 8080))
        assert [web.stays_alive(), other.stays_alive()] == [True, True]
        rules, icmp = both(protocol=TCP_NUMBER, destination_ports=WEB), both(protocol=ICMP)
        self.guard(driver, site, group(1, site, 0, egress=rules, ingress=icmp))
        pings = two.traffic(site.nets[0].address(20, version))
        assert web.stays_alive()
        assert not other.is_alive()
        self.guard(driver, site, group(1, site, 0, egress=(*icmp, *rules), ingress=icmp))
        assert web.stays_alive()
        assert pings.stop() == 0
        restarted = make_driver()
        self.guard(restarted, site, group(1, site, 0, egress=(*icmp, *rules), ingress=icmp))
        assert web.stays_alive()
        for stream in (web, other):
            stream.close()

    @pytest.mark.spec("L3-81")
    def test_rejected_connections_end_at_once(self, make_driver: MakeDriver) -> None:
        driver, site = make_driver(), make_site()
        one, _ = self.instance(site, 0), self.instance(site, 1)
        target = site.nets[1].address(20)
        rejected = both(action=FirewallAction.REJECT, protocol=TCP_NUMBER, destination_ports=WEB)
        self.guard(driver, site, group(1, site, 0, egress=(*rejected, *both())))
        assert one.connect(target, 80) is None
        self.arrives(one, target, TCP, 8080)

    @pytest.mark.spec("L3-81")
    def test_floating_ips_and_gateway_are_filtered_by_inside_addresses(
        self, make_driver: MakeDriver
    ) -> None:
        driver, site = make_driver(), make_site()
        floating = site.floating(50, site.nets[0].address(20))
        self.bring(driver, site, floating)
        one, outside = self.instance(site), self.outside(site)
        self.arrives(outside, floating.address, TCP, 80)
        inside = as_network(f"{site.nets[0].address(20)}/32")
        web = rule(protocol=TCP_NUMBER, destination=inside, destination_ports=WEB)
        self.guard(driver, site, group(1, site, 0, ingress=(web,)))
        assert self.arrives(outside, floating.address, TCP, 80).at == one.name
        self.assert_unreachable(outside, floating.address, TCP, 8080)
        self.assert_unreachable(one, site.external.address(1))

    @pytest.mark.spec("L3-81")
    def test_a_distributed_router_filters_what_leaves_and_comes_from_outside(
        self, make_driver: MakeDriver
    ) -> None:
        driver, site = make_driver(), make_distributed()
        floating = site.floating(50, site.nets[0].address(20))
        things = (site, make_agent_gateway(site.external), floating)
        self.put_distributed(driver, *things)
        one, two = (
            self.environment.machine(net.id, net.interfaces(20), net.gateways())
            for net in site.nets
        )
        external = site.external
        outside = self.environment.machine(external.id, external.interfaces(1))
        target = external.address(1)
        self.arrives(outside, floating.address, TCP, 80)
        self.arrives(two, target)
        web = both(protocol=TCP_NUMBER, destination_ports=WEB)
        guarded = group(1, site, 0, 1, ingress=web, egress=web)
        state = self.guarded(driver, site.router, site.state, guarded)
        self.put_distributed(driver, evolve(site, state=state))
        assert self.arrives(outside, floating.address, TCP, 80).at == one.name
        self.assert_unreachable(outside, floating.address, TCP, 8080)
        assert self.arrives(one, target, TCP, 80).source == floating.address
        self.assert_unreachable(one, target)
        assert self.arrives(two, target, TCP, 80).source == site.outside_address
        self.assert_unreachable(two, target)
        assert self.arrives(one, site.nets[1].address(20)).at == two.name

    def put_distributed(self, driver: RouterDriver, *things: Any) -> None:
        """Put *things*; again what waits until its gateway is wired."""
        ports = [port for each in things for port in getattr(each, "ports", ())]
        self.environment.admit(ports)
        put = {each.key: each.value for each in things}
        assert not driver.converge(Update(put=put)).failed
        self.environment.await_wired(ports)
        wait_until(lambda: driver.converge(Update(put=put)).ok, seconds=self.environment.timeout)
