"""NDP proxies on the Linux router driver, with real packets."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_interface, ip_network
from uuid import uuid4

import pytest

from netfw.drivers.l3_extension import ExtendedRouter
from netfw.drivers.router import RouterDriver
from netfw.model.ndp_proxy import NdpProxy
from netfw.model.router import Router
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import NdpProxyId, PortId
from netfw.plan import Update
from netfw.testing.conformance.router.case import MakeDriver, RouterCase
from netfw.testing.conformance.router.environment import Machine, RouterEnvironment
from netfw.testing.conformance.router.factories import RoutedNetwork, Site, make_site
from netfw_drivers.l3_extensions.ndp_proxy import NdpProxyExtension
from tests.lab.backends.linux_router.environment import LinuxRouterEnvironment

pytestmark = [pytest.mark.services, pytest.mark.spec("API-07")]


def with_proxies(
    driver: RouterDriver, site: Site, *addresses: IpAddress, enabled: bool = True
) -> Site:
    """Return *site* with what the extension contributes for NDP proxies of *addresses*."""
    extension = NdpProxyExtension()
    proxies = tuple(
        NdpProxy(
            id=NdpProxyId(uuid4()), router_id=site.router, port_id=PortId(uuid4()), address=each
        )
        for each in addresses
    )
    router = Router(id=site.router, enable_ndp_proxy=enabled)
    view = ExtendedRouter(router=router, state=site.state, related=proxies)
    made = extension.contribute(site.router, view, driver.grant(extension.grant_request()))
    return site.with_state(contributions=() if made is None else (made,))


class TestNdpProxy(RouterCase):
    """Neighbours outside for which inside addresses are on their own link, and others."""

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[RouterEnvironment]:
        with LinuxRouterEnvironment() as environment:
            yield environment

    def neighbour(self, site: Site, number: int) -> Machine:
        address = site.external.address(number, 6)
        return self.environment.machine(site.external.id, [ip_interface(f"{address}/16")], [])

    def test_neighbours_reach_proxied_addresses_alone(self, make_driver: MakeDriver) -> None:
        driver = make_driver()
        external = RoutedNetwork(blocks=(ip_network("203.0.113.0/24"), ip_network("fd00:ff::/64")))
        site = make_site(external=external)
        proxied, other = (site.nets[0].address(number, 6) for number in (20, 21))
        self.bring(driver, with_proxies(driver, site, proxied))
        one, two = self.instance(site), self.instance(site, number=21)
        near, routed = self.neighbour(site, 2), self.outside(site)
        assert self.arrives(near, proxied).at == one.name
        assert self.arrives(routed, proxied).at == one.name
        self.assert_unreachable(near, other)
        self.assert_unreachable(routed, other)
        assert self.arrives(two, external.address(1, 6)).at == routed.name
        again = make_driver()
        update = Update(put=with_proxies(again, site, proxied).wanted())
        assert not again.plan(update, again.observe(None))  # type: ignore[attr-defined]
        self.bring(again, with_proxies(again, site, proxied, other))
        assert self.arrives(near, other).at == two.name
        self.bring(again, with_proxies(again, site, proxied, other, enabled=False))
        self.assert_unreachable(self.neighbour(site, 3), proxied)
        assert self.arrives(routed, other).at == two.name
