"""L3Extension: adds rules, addresses and limits to a router."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from netfw.drivers.agent_extension import AgentExtension
from netfw.drivers.values.router_contribution import RouterContribution
from netfw.drivers.values.router_values import RouterState
from netfw.model.resource import Resource
from netfw.model.router import Router
from netfw.model.values.ids import RouterId


@frozen(kw_only=True)
class ExtendedRouter:
    """The view of a router of this host for extensions."""

    router: Router
    state: RouterState
    """The desired state of the router, without contributions."""
    related: tuple[Resource, ...] = ()
    """Floating IPs of the router on this host, their port forwardings, the NDP proxies of the
    router, and the QoS policies of floating IPs and gateway."""


class L3Extension(AgentExtension[RouterId, ExtendedRouter, RouterContribution]):
    """Adds rules, addresses and rate limits to the routers of this host.

    Promises are those of :class:`AgentExtension`, and:

    1. The extension is called for every router, when the router appears and when its view changes;
       the contribution is applied with the router's own rules, at once.  The instances of a highly
       available router get the same contribution, whatever their role: one that becomes active has
       it already.
    2. The contribution to a router is removed with that router.
    """

    GROUP: ClassVar[str] = "netfw.l3_extensions"
    VERSION: ClassVar[int] = 2
