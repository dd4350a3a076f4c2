"""The extensions that limit addresses pass the suite that every L3 extension passes."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from netfw.drivers.l3_extension import ExtendedRouter, L3Extension
from netfw.model.floating_ip import FloatingIp
from netfw.model.qos import BandwidthLimit, QosPolicy
from netfw.model.router import ExternalGateway, Router
from netfw.model.values.ids import FloatingIpId, PortId, QosPolicyId, QosRuleId
from netfw.testing.conformance import L3ExtensionConformance
from netfw.testing.conformance.router.factories import make_site
from netfw_drivers.l3_extensions.fip_qos import FloatingIpQosExtension
from netfw_drivers.l3_extensions.gateway_ip_qos import GatewayIpQosExtension

pytestmark = [pytest.mark.fakes, pytest.mark.spec("L3-80")]

POLICY = QosPolicy(
    id=QosPolicyId(UUID(int=1)),
    name="slow",
    rules=(BandwidthLimit(id=QosRuleId(UUID(int=2)), max_kbps=1000),),
)


class AddressQosConformance(L3ExtensionConformance):
    """Routers with a limited gateway, and with no, one and two floating IPs that are limited."""

    sites = tuple(make_site() for _ in range(3))

    def routers(self) -> Sequence[ExtendedRouter]:
        return [self.router(number) for number in range(len(self.sites))]

    def router(self, number: int) -> ExtendedRouter:
        site = self.sites[number]
        floating_ips = tuple(
            FloatingIp(
                id=FloatingIpId(UUID(int=10 * number + each)),
                network_id=site.external.id,
                address=site.external.address(60 + each),
                port_id=PortId(UUID(int=7)),
                fixed_address=site.nets[0].address(20 + each),
                router_id=site.router,
                qos_policy_id=POLICY.id,
            )
            for each in range(number)
        )
        gateway = ExternalGateway(network_id=site.external.id, qos_policy_id=POLICY.id)
        return ExtendedRouter(
            router=Router(id=site.router, gateway=gateway),
            state=site.state,
            related=(*floating_ips, POLICY),
        )


class TestFloatingIpQosExtension(AddressQosConformance):
    """Limits of floating IPs."""

    def make_extension(self) -> L3Extension:
        return FloatingIpQosExtension()


class TestGatewayIpQosExtension(AddressQosConformance):
    """Limits of gateways."""

    def make_extension(self) -> L3Extension:
        return GatewayIpQosExtension()
