"""Forwarded ports of floating IPs on the Linux router driver, with real packets."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from uuid import UUID

import pytest

from netfw.drivers.l3_extension import ExtendedRouter
from netfw.drivers.router import RouterDriver
from netfw.model.floating_ip import FloatingIp, ForwardedProtocol, PortForwarding
from netfw.model.router import Router
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import FloatingIpId, PortForwardingId, PortId
from netfw.model.values.port_range import PortRange
from netfw.plan import Update
from netfw.testing.conformance.router.case import MakeDriver, RouterCase
from netfw.testing.conformance.router.environment import TCP, UDP, RouterEnvironment
from netfw.testing.conformance.router.factories import Site, make_site
from netfw.testing.lab.wait import wait_until
from netfw_drivers.l3_extensions.port_forwarding import PortForwardingExtension
from tests.lab.backends.linux_router.environment import LinuxRouterEnvironment

pytestmark = pytest.mark.services

SHARED = ip_address("203.0.113.60")
Ports = tuple[int, int]


def forward(
    number: int, external: Ports, internal: Ports, to: IpAddress, protocol: str = TCP
) -> PortForwarding:
    return PortForwarding(
        id=PortForwardingId(UUID(int=number)),
        floating_ip_id=FloatingIpId(UUID(int=60)),
        protocol=ForwardedProtocol(protocol),
        external_ports=PortRange(*external),
        internal_ports=PortRange(*internal),
        internal_port_id=PortId(UUID(int=7)),
        internal_address=to,
    )


class TestPortForwarding(RouterCase):
    """Packets to forwarded ports, with SNAT and other floating IPs beside them."""

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[RouterEnvironment]:
        with LinuxRouterEnvironment() as environment:
            yield environment

    def with_forwardings(
        self, driver: RouterDriver, site: Site, *forwardings: PortForwarding
    ) -> Site:
        """Return *site* with the contribution that the extension makes for *forwardings*."""
        extension = PortForwardingExtension()
        floating = FloatingIp(
            id=FloatingIpId(UUID(int=60)),
            network_id=site.external.id,
            address=SHARED,
            router_id=site.router,
        )
        view = ExtendedRouter(
            router=Router(id=site.router), state=site.state, related=(floating, *forwardings)
        )
        grant = driver.grant(extension.grant_request())
        made = extension.contribute(site.router, view, grant)
        return site.with_state(contributions=() if made is None else (made,))

    @pytest.mark.spec("L3-80")
    @pytest.mark.parametrize("protocol", [TCP, UDP])
    def test_ports_and_ranges_lead_to_their_ports(
        self, make_driver: MakeDriver, protocol: str
    ) -> None:
        driver, site = make_driver(), make_site()
        inside, second = site.nets[0].address(20), site.nets[1].address(20)
        forwarded = self.with_forwardings(
            driver,
            site,
            forward(1, (2200, 2200), (80, 80), inside, protocol),
            forward(2, (5000, 5002), (5000, 5002), second, protocol),
            forward(3, (8079, 8081), (79, 81), inside, protocol),
            forward(4, (9000, 9001), (8080, 8080), second, protocol),
        )
        self.bring(driver, forwarded)
        update = Update(put=forwarded.wanted())
        assert not driver.plan(update, driver.observe(None))  # type: ignore[attr-defined]
        one, two = self.instance(site, 0), self.instance(site, 1)
        outside = self.outside(site)
        for port in (2200, 8080):
            assert self.arrives(outside, SHARED, protocol, port).at == one.name
        for port in (5000, 5001, 5002, 9000, 9001):
            assert self.arrives(outside, SHARED, protocol, port).at == two.name
        for port in (8079, 8081, 80, 2222):  # neither 79 nor 81 has a listener inside
            self.assert_unreachable(outside, SHARED, protocol, port)
        assert self.arrives(two, SHARED, protocol, 2200).at == one.name
        assert self.arrives(one, site.external.address(1)).source == site.outside_address
        self.bring(driver, site)
        self.assert_unreachable(outside, SHARED, protocol, 2200)
        assert self.arrives(one, site.external.address(1)).source == site.outside_address

    @pytest.mark.spec("L3-80")
    def test_the_end_of_a_port_forwarding_ends_its_connections_alone(
        self, make_driver: MakeDriver
    ) -> None:
        driver, site = make_driver(), make_site()
        inside = site.nets[0].address(20)
        first, second = (
            forward(1, (2200, 2200), (80, 80), inside),
            forward(2, (5000, 5002), (5000, 5002), inside),
        )
        self.bring(driver, self.with_forwardings(driver, site, first, second))
        self.instance(site)
        outside = self.outside(site)
        self.arrives(outside, SHARED, TCP, 2200)
        ended, stays = (self.connected(outside, SHARED, port) for port in (2200, 5001))
        self.bring(driver, self.with_forwardings(driver, site, second))
        wait_until(lambda: not ended.is_alive(), seconds=self.environment.timeout)
        assert stays.stays_alive()
        self.bring(driver, site)
        wait_until(lambda: not stays.is_alive(), seconds=self.environment.timeout)
        ended.close()
        stays.close()

    @pytest.mark.spec("L3-80")
    def test_forwarded_ports_survive_a_restart(self, make_driver: MakeDriver) -> None:
        driver, site = make_driver(), make_site()
        inside = site.nets[0].address(20)
        forwarded = self.with_forwardings(driver, site, forward(1, (2200, 2202), (80, 82), inside))
        self.bring(driver, forwarded)
        self.instance(site)
        outside = self.outside(site)
        self.arrives(outside, SHARED, TCP, 2200)
        stream = self.connected(outside, SHARED, 2200)
        driver = make_driver()
        again = self.with_forwardings(driver, site, forward(1, (2200, 2202), (80, 82), inside))
        update = Update(put=again.wanted())
        assert not driver.plan(update, driver.observe(None))  # type: ignore[attr-defined]
        self.bring(driver, again)
        assert stream.stays_alive()
        stream.close()
