"""The extension for router firewalls passes the suite that every L3 extension passes."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from netfw.drivers.l3_extension import ExtendedRouter, L3Extension
from netfw.model.router import Router
from netfw.model.router_firewall import FirewallAction, FirewallGroup, FirewallRule
from netfw.model.values.ids import FirewallGroupId, FirewallRuleId
from netfw.model.values.protocol import TCP
from netfw.testing.conformance import L3ExtensionConformance
from netfw.testing.conformance.router.distributed_factories import make_distributed
from netfw.testing.conformance.router.factories import make_site
from netfw_drivers.l3_extensions.router_firewall import RouterFirewallExtension

pytestmark = pytest.mark.fakes

RULES = tuple(
    FirewallRule(id=FirewallRuleId(UUID(int=number)), action=action, protocol=TCP)
    for number, action in enumerate(FirewallAction)
)


@pytest.mark.spec("L3-81")
class TestRouterFirewallExtension(L3ExtensionConformance):
    """Routers without groups, with groups of one or two interfaces, and a distributed one."""

    sites = tuple(make_site() for _ in range(3))
    distributed = make_distributed()

    def make_extension(self) -> L3Extension:
        return RouterFirewallExtension()

    def routers(self) -> Sequence[ExtendedRouter]:
        plain = [self.router(number) for number in range(len(self.sites))]
        inner = self.distributed.local.interfaces[0].id
        groups = (FirewallGroup(id=FirewallGroupId(UUID(int=9)), ports=(inner,), egress=RULES),)
        router = Router(id=self.distributed.router, distributed=True, firewall_groups=groups)
        return [*plain, ExtendedRouter(router=router, state=self.distributed.state)]

    def router(self, number: int) -> ExtendedRouter:
        """Return a router with *number* groups, each of one interface."""
        site = self.sites[number]
        groups = tuple(
            FirewallGroup(id=FirewallGroupId(UUID(int=at)), ports=(port.id,), ingress=RULES)
            for at, port in enumerate(site.full.interfaces[:number])
        )
        router = Router(id=site.router, firewall_groups=groups)
        return ExtendedRouter(router=router, state=site.state)
