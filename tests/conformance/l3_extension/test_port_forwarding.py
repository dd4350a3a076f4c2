"""The extension for port forwardings passes the suite that every L3 extension passes."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from uuid import UUID

import pytest

from netfw.drivers.l3_extension import ExtendedRouter, L3Extension
from netfw.model.floating_ip import FloatingIp, ForwardedProtocol, PortForwarding
from netfw.model.router import Router
from netfw.model.values.ids import FloatingIpId, PortForwardingId, PortId
from netfw.model.values.port_range import PortRange
from netfw.testing.conformance import L3ExtensionConformance
from netfw.testing.conformance.router.factories import make_site
from netfw_drivers.l3_extensions.port_forwarding import PortForwardingExtension

pytestmark = pytest.mark.fakes


@pytest.mark.spec("L3-80")
class TestPortForwardingExtension(L3ExtensionConformance):
    """Routers with no, one and several forwarded ports."""

    sites = tuple(make_site() for _ in range(3))

    def make_extension(self) -> L3Extension:
        return PortForwardingExtension()

    def routers(self) -> Sequence[ExtendedRouter]:
        return [self.router(number) for number in range(len(self.sites))]

    def router(self, number: int) -> ExtendedRouter:
        """Return a router with *number* forwarded ports of one floating IP."""
        site = self.sites[number]
        floating = FloatingIp(
            id=FloatingIpId(UUID(int=number)),
            network_id=site.external.id,
            address=site.external.address(60),
            router_id=site.router,
        )
        forwardings = tuple(
            PortForwarding(
                id=PortForwardingId(UUID(int=100 * number + port)),
                floating_ip_id=floating.id,
                protocol=ForwardedProtocol.UDP,
                external_ports=PortRange.single(5000 + port),
                internal_ports=PortRange.single(80 + port),
                internal_port_id=PortId(UUID(int=7)),
                internal_address=ip_address("10.0.1.20"),
            )
            for port in range(number)
        )
        return ExtendedRouter(
            router=Router(id=site.router), state=site.state, related=(floating, *forwardings)
        )
