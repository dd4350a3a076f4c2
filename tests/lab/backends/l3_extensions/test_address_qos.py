"""Limits of floating IPs and gateways on the Linux router driver, with real packets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.l3_extension import ExtendedRouter, L3Extension
from netfw.drivers.router import RouterDriver
from netfw.drivers.values.router_contribution import RouterContribution
from netfw.drivers.values.router_values import RouterPart
from netfw.model.floating_ip import FloatingIp
from netfw.model.qos import BandwidthLimit, QosPolicy
from netfw.model.router import ExternalGateway, Router
from netfw.model.security_group import Direction
from netfw.model.values.ids import PortId, QosPolicyId, QosRuleId
from netfw.plan import Update
from netfw.testing.conformance.router.case import MakeDriver, RouterCase
from netfw.testing.conformance.router.distributed import RouterDistributedConformance
from netfw.testing.conformance.router.distributed_factories import (
    DistributedSite,
    make_agent_gateway,
    make_distributed,
)
from netfw.testing.conformance.router.environment import Machine, RouterEnvironment
from netfw.testing.conformance.router.factories import Floating, Site, make_site
from netfw.testing.conformance.router.lab_machine import LabMachine
from netfw_drivers.l3_extensions.fip_qos import FloatingIpQosExtension
from netfw_drivers.l3_extensions.gateway_ip_qos import GatewayIpQosExtension
from tests.lab.backends.linux_router.environment import LinuxRouterEnvironment
from tests.system.datagrams import assert_address_limited, assert_unlimited

pytestmark = [pytest.mark.services, pytest.mark.spec("L3-80")]

KBPS = 400
POLICY = QosPolicyId(UUID(int=1))
BOTH = (Direction.INGRESS, Direction.EGRESS)


def policy(kbps: int = KBPS, directions: Sequence[Direction] = BOTH) -> QosPolicy:
    rules = (
        BandwidthLimit(id=QosRuleId(UUID(int=n)), max_kbps=kbps, direction=direction)
        for n, direction in enumerate(directions)
    )
    return QosPolicy(id=POLICY, name="slow", rules=tuple(rules))


def make_floating(site: Site | DistributedSite, floating: Floating, *, limited: bool) -> FloatingIp:
    return FloatingIp(
        id=floating.id,
        network_id=site.external.id,
        address=floating.address,
        port_id=PortId(UUID(int=7)),
        fixed_address=floating.value.fixed_address,
        router_id=site.router,
        qos_policy_id=POLICY if limited else None,
    )


def send(source: Machine, sink: Machine, to: object, count: int) -> None:
    """Send so many datagrams, all of which should arrive."""
    assert isinstance(source, LabMachine)
    assert isinstance(sink, LabMachine)
    assert_unlimited(source.instance, sink.instance, str(to), count)


def assert_limited(source: Machine, sink: Machine, to: object, kbps: int = KBPS) -> None:
    """Send twice as much as the limit allows, and check that no more arrives."""
    assert isinstance(source, LabMachine)
    assert isinstance(sink, LabMachine)
    assert_address_limited(source.instance, sink.instance, str(to), kbps)


class TestAddressQos(RouterCase):
    """Datagrams to and from floating IPs and gateways with limits."""

    put = RouterDistributedConformance.put
    guest = RouterDistributedConformance.guest
    outsider = RouterDistributedConformance.outsider

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[RouterEnvironment]:
        with LinuxRouterEnvironment() as environment:
            yield environment

    def contribute(
        self,
        driver: RouterDriver,
        site: Site | DistributedSite,
        extension: L3Extension,
        router: Router,
        *related: FloatingIp | QosPolicy,
    ) -> RouterContribution:
        view = ExtendedRouter(router=router, state=site.state, related=related)
        made = extension.contribute(site.router, view, driver.grant(extension.grant_request()))
        assert made is not None
        return made

    def test_a_floating_ip_is_limited_both_ways_and_others_are_not(
        self, make_driver: MakeDriver
    ) -> None:
        driver, plain = make_driver(), make_site()
        floating = plain.floating(50, plain.nets[0].address(20))
        other = plain.floating(51, plain.nets[1].address(20))
        limited = make_floating(plain, floating, limited=True)
        router = Router(id=plain.router)

        def limited_site(kbps: int) -> Site:
            extension = FloatingIpQosExtension()
            made = self.contribute(driver, plain, extension, router, limited, policy(kbps))
            return plain.with_state(contributions=(made,))

        self.bring(driver, limited_site(KBPS), floating, other)
        update = Update(put=limited_site(KBPS).wanted(floating, other))
        assert not driver.plan(update, driver.observe(None))  # type: ignore[attr-defined]
        one, two, outside = self.instance(plain, 0), self.instance(plain, 1), self.outside(plain)
        self.arrives(outside, floating.address)
        self.arrives(outside, other.address)
        beyond = plain.external.address(1)
        assert_limited(outside, one, floating.address)
        assert_limited(one, outside, beyond)
        send(outside, two, other.address, 200)
        send(two, outside, beyond, 200)
        self.bring(driver, limited_site(KBPS // 4), floating, other)
        assert_limited(outside, one, floating.address, KBPS // 4)
        self.bring(driver, plain, floating, other)
        send(outside, one, floating.address, 200)
        send(one, outside, beyond, 200)

    def test_the_limit_of_a_gateway_is_not_that_of_its_floating_ips(
        self, make_driver: MakeDriver
    ) -> None:
        driver, plain = make_driver(), make_site()
        floating = plain.floating(50, plain.nets[0].address(20))
        related = make_floating(plain, floating, limited=False)
        gateway = ExternalGateway(network_id=plain.external.id, qos_policy_id=POLICY)
        router = Router(id=plain.router, gateway=gateway)
        made = self.contribute(
            driver, plain, GatewayIpQosExtension(), router, related, policy(KBPS)
        )
        self.bring(driver, plain.with_state(contributions=(made,)), floating)
        one, two, outside = self.instance(plain, 0), self.instance(plain, 1), self.outside(plain)
        beyond = plain.external.address(1)
        self.arrives(outside, floating.address)
        self.arrives(two, beyond)
        assert_limited(two, outside, beyond)
        send(one, outside, beyond, 200)
        send(outside, one, floating.address, 200)

    def test_a_floating_ip_of_a_local_part_is_limited_there(self, driver: RouterDriver) -> None:
        site = make_distributed()
        gateway = make_agent_gateway(site.external)
        one, outside = self.guest(site.nets[0]), self.outsider(site)
        floating = site.floating(50, site.nets[0].address(20))
        limited = evolve(make_floating(site, floating, limited=True), host="here")
        here = site.without(RouterPart.CENTRAL)
        router = Router(id=site.router, distributed=True)
        made = self.contribute(driver, here, FloatingIpQosExtension(), router, limited, policy())
        self.put(driver, gateway, here.with_state(contributions=(made,)), floating)
        self.arrives(outside, floating.address)
        assert_limited(outside, one, floating.address)
        assert_limited(one, outside, ip_address(site.external.address(1)))
