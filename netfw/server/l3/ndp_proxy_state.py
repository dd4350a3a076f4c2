"""Whether NDP proxies are enabled on a router: decided with its gateway."""

from __future__ import annotations

from typing import Final, cast

from netfw.drivers.server.query import Body
from netfw.errors.ndp_proxies import RouterGatewayNotValid, RouterIPv6GatewayInUse
from netfw.model.network import Network
from netfw.model.resource import Kind
from netfw.model.router import Router
from netfw.server.core.unit_of_work import UnitOfWork

ATTRIBUTE: Final = "enable_ndp_proxy"


def decide_ndp_proxy(unit: UnitOfWork, before: Router | None, after: Router, body: Body) -> bool:
    """Return whether NDP proxies are enabled on *after*, whose gateway is that of the request.

    :param before: the router until now; ``None``: it is new.
    :raises RouterGatewayNotValid: the request enables them, and the gateway cannot answer.
    :raises RouterIPv6GatewayInUse: they are enabled, and the gateway loses its IPv6 addresses.
    """
    requested = body.get(ATTRIBUTE)
    if requested is None and before is None:
        return unit.context.settings.enable_ndp_proxy_by_default and not _problem(unit, after)
    if requested is None:
        was = before is not None and before.enable_ndp_proxy
        if was and after.gateway is not None and not _has_ipv6(after):
            raise RouterIPv6GatewayInUse(
                f"NDP proxies are enabled on router {after.id}, and its gateway would have no IPv6 "
                "address; disable them first"
            )
        return was and after.gateway is not None
    if requested and (problem := _problem(unit, after)):
        raise RouterGatewayNotValid(
            f"NDP proxies cannot be enabled on router {after.id}: {problem}"
        )
    return bool(requested)


def _problem(unit: UnitOfWork, router: Router) -> str:
    """Return why the gateway of *router* cannot answer for addresses; empty: it can."""
    gateway = router.gateway
    if gateway is None:
        return "it has no gateway"
    if not _has_ipv6(router):
        return "its gateway has no IPv6 address"
    network = cast(Network, unit.tx.resources.get(Kind.NETWORK, gateway.network_id).resource())
    if network.ipv6_address_scope is None:
        return f"external network {network.id} has no IPv6 address scope"
    return ""


def _has_ipv6(router: Router) -> bool:
    gateway = router.gateway
    return gateway is not None and any(each.address.version == 6 for each in gateway.fixed_ips)
