"""The extension for NDP proxies passes the suite that every L3 extension passes."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest

from netfw.drivers.l3_extension import ExtendedRouter, L3Extension
from netfw.model.ndp_proxy import NdpProxy
from netfw.model.router import Router
from netfw.model.values.ids import NdpProxyId, PortId
from netfw.testing.conformance import L3ExtensionConformance
from netfw.testing.conformance.router.factories import make_site
from netfw_drivers.l3_extensions.ndp_proxy import NdpProxyExtension

pytestmark = pytest.mark.fakes


@pytest.mark.spec("API-07")
class TestNdpProxyExtension(L3ExtensionConformance):
    """Routers with no, one and several NDP proxies."""

    sites = tuple(make_site() for _ in range(3))

    def make_extension(self) -> L3Extension:
        return NdpProxyExtension()

    def routers(self) -> Sequence[ExtendedRouter]:
        return [self.router(number) for number in range(len(self.sites))]

    def router(self, number: int) -> ExtendedRouter:
        """Return a router with *number* NDP proxies."""
        site = self.sites[number]
        proxies = tuple(
            NdpProxy(
                id=NdpProxyId(UUID(int=100 * number + each)),
                router_id=site.router,
                port_id=PortId(uuid4()),
                address=site.nets[0].address(20 + each, 6),
            )
            for each in range(number)
        )
        router = Router(id=site.router, enable_ndp_proxy=True)
        return ExtendedRouter(router=router, state=site.state, related=proxies)
