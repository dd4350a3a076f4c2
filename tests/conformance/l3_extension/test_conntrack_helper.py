"""The extension for conntrack helpers passes the suite that every L3 extension passes."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from netfw.drivers.l3_extension import ExtendedRouter, L3Extension
from netfw.model.router import ConntrackHelper, HelperProtocol, Router
from netfw.model.values.ids import ConntrackHelperId
from netfw.testing.conformance import L3ExtensionConformance
from netfw.testing.conformance.router.factories import make_site
from netfw_drivers.l3_extensions.conntrack_helper import ConntrackHelperExtension

pytestmark = pytest.mark.fakes


@pytest.mark.spec("L3-80")
class TestConntrackHelperExtension(L3ExtensionConformance):
    """Routers with no, one and several conntrack helpers."""

    sites = tuple(make_site() for _ in range(3))

    def make_extension(self) -> L3Extension:
        return ConntrackHelperExtension()

    def routers(self) -> Sequence[ExtendedRouter]:
        return [self.router(number) for number in range(len(self.sites))]

    def router(self, number: int) -> ExtendedRouter:
        """Return a router with *number* conntrack helpers."""
        site = self.sites[number]
        helpers = tuple(
            ConntrackHelper(
                id=ConntrackHelperId(UUID(int=100 * number + port)),
                protocol=HelperProtocol.UDP,
                port=6000 + port,
                helper="tftp",
            )
            for port in range(number)
        )
        router = Router(id=site.router, conntrack_helpers=helpers)
        return ExtendedRouter(router=router, state=site.state)
