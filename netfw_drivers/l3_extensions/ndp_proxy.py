"""NdpProxyExtension: has gateways answer for inside IPv6 addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv6Address
from typing import ClassVar

from netfw.drivers.l3_extension import ExtendedRouter
from netfw.drivers.values.pipeline_grant import Grant
from netfw.drivers.values.router_contribution import (
    RouterContribution,
    RouterRule,
    RuleChain,
    RuleTable,
)
from netfw.drivers.values.router_values import Gateway, RouterPort, RouterState
from netfw.model import l3_extensions
from netfw.model.ndp_proxy import NdpProxy
from netfw.model.values.address import IpNetwork
from netfw.model.values.ids import PortId, RouterId
from netfw_drivers.l3_extensions.optionless import OptionlessExtension


class NdpProxyExtension(OptionlessExtension):
    """Answers for the addresses of NDP proxies at the gateway, and for no others behind it.

    Of the subnets in the address scope of the gateway, new connections from outside reach the
    addresses of NDP proxies alone.
    """

    NAME: ClassVar[str] = l3_extensions.NDP_PROXY

    def contribute(
        self, key: RouterId, value: ExtendedRouter, grant: Grant
    ) -> RouterContribution | None:
        gateway = _gateway(value.state)
        if gateway is None or not value.router.enable_ndp_proxy:
            return None
        proxied = tuple(
            each.address
            for each in value.related
            if isinstance(each, NdpProxy) and isinstance(each.address, IPv6Address)
        )
        subnets = _subnets(value.state, gateway)
        return RouterContribution(
            owner=grant.owner,
            rules=tuple(make_rules(gateway.port.id, proxied, subnets)),
            proxied=proxied,
        )


def make_rules(
    gateway: PortId, proxied: Iterable[IPv6Address], subnets: Iterable[IpNetwork]
) -> Iterator[RouterRule]:
    """Yield the rules for what comes in by *gateway*, in their order."""
    known = ("-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED")
    yield _rule(gateway, *known, "-j", "RETURN")
    for address in proxied:
        yield _rule(gateway, "-d", f"{address}/128", "-j", "RETURN")
    for subnet in subnets:
        yield _rule(gateway, "-d", str(subnet), "-j", "DROP")


def _rule(gateway: PortId, *words: str) -> RouterRule:
    return RouterRule(
        table=RuleTable.FILTER,
        chain=RuleChain.FORWARD,
        ip_version=6,
        words=words,
        in_port=gateway,
    )


def _gateway(state: RouterState) -> Gateway | None:
    """Return the gateway of the part of the router on this host."""
    part = state.full or state.central
    return None if part is None else part.gateway


def _subnets(state: RouterState, gateway: Gateway) -> tuple[IpNetwork, ...]:
    """Return the inside IPv6 subnets in the address scope of the gateway, in a fixed order."""
    ports: tuple[RouterPort, ...] = ()
    if state.full is not None:
        ports = state.full.interfaces
    elif state.central is not None:
        ports = state.central.ports
    scope = gateway.port.scopes.get(6)
    found = {
        each.network
        for port in ports
        if port.scopes.get(6) == scope
        for each in port.addresses
        if each.version == 6 and not each.is_link_local
    }
    return tuple(sorted(found, key=str))
