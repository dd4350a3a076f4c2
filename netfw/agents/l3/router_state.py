"""The desired state of one router and its floating IPs on this host.  Pure."""

from __future__ import annotations

from collections.abc import Container

from attrs import frozen

from netfw.agents.l3.resource_index import L3ResourceIndex
from netfw.agents.l3.router_parts import (
    ADMIN_DOWN,
    NO_HA,
    L3HostContext,
    NotOnHost,
    find_gateway_port,
    has_ipv6,
    make_gateway,
    make_ha,
    make_interfaces,
)
from netfw.drivers.values.router_values import (
    FloatingIpNat,
    FullRouter,
    Gateway,
    HighAvailability,
    RouterPart,
    RouterState,
)
from netfw.model.floating_ip import FloatingIp
from netfw.model.router import Router
from netfw.model.values.address import IpAddress
from netfw.model.values.ids import PortId, RouterId

NOT_CONTRIBUTED = "it stands for no port, and no extension of this host uses it"


@frozen(kw_only=True)
class ContributedFloatingIp:
    """A floating IP whose address and rules extensions contribute to its router."""

    router: RouterId
    gateway_port: PortId | None
    """The port that has its address."""


def make_full_router(
    router: Router, index: L3ResourceIndex, context: L3HostContext
) -> RouterState | NotOnHost:
    """Return the desired state of a router that is not distributed, without contributions."""
    if not router.admin_up:
        return NotOnHost(reason=ADMIN_DOWN)
    refusal = _refusal(router, context)
    if refusal is not None:
        return NotOnHost(reason=refusal, refused=True)
    ports = [port for port in index.ports(router.id) if port.admin_up]
    interfaces, gateway_port = make_interfaces(ports, index), find_gateway_port(ports)
    ha = make_ha(router, ports, index, context) if router.ha else None
    if isinstance(ha, NotOnHost):
        return ha
    gateway = None
    if router.gateway is not None and gateway_port is not None:
        ipv6 = has_ipv6(interfaces)
        gateway = make_gateway(router.gateway.enable_snat, gateway_port, index, context, ipv6)
    return RouterState(
        full=FullRouter(interfaces=interfaces, gateway=gateway, ha=ha),
        routes=router.routes,
        metadata_port=context.metadata_port,
    )


def make_floating_ip(
    floating: FloatingIp,
    router: RouterState,
    contributed: Container[IpAddress],
    context: L3HostContext,
) -> FloatingIpNat | ContributedFloatingIp | NotOnHost | None:
    """Return the desired state of a floating IP of *router*; ``None``: it is not this host's.

    *contributed* are the addresses that extensions contribute to its router.
    """
    part = find_part(floating, router, context)
    if floating.router_id is None or part is None:
        return _prepare_floating_ip(floating, router, context)
    if floating.fixed_address is None:
        if floating.address in contributed:
            gateway_port = gateway_port_of(router)
            return ContributedFloatingIp(router=floating.router_id, gateway_port=gateway_port)
        return NotOnHost(reason=NOT_CONTRIBUTED)
    if part is RouterPart.LOCAL and not context.agent_mode.has_agent_gateways:
        mode = context.agent_mode
        return NotOnHost(reason=f"agent_mode of the host of its port, {context.host}, is {mode}")
    problem = context.gateway_problem(floating.network_id)
    if part is RouterPart.LOCAL and problem is not None:
        return NotOnHost(reason=problem, refused=True)
    return FloatingIpNat(
        router=floating.router_id,
        part=part,
        external_network=floating.network_id,
        floating_address=floating.address,
        fixed_address=floating.fixed_address,
    )


def _prepare_floating_ip(
    floating: FloatingIp, router: RouterState, context: L3HostContext
) -> FloatingIpNat | None:
    """Return a floating IP of another host that may come to this one; ``None``: it may not.

    The source delivers it to this host for this alone.
    """
    if floating.router_id is None or floating.fixed_address is None or floating.host is None:
        return None
    if router.local is None or not context.has_agent_gateways:
        return None
    if context.gateway_problem(floating.network_id) is not None:
        return None
    return FloatingIpNat(
        router=floating.router_id,
        part=RouterPart.LOCAL,
        external_network=floating.network_id,
        floating_address=floating.address,
        fixed_address=floating.fixed_address,
        prepared=True,
    )


def find_part(
    floating: FloatingIp, router: RouterState, context: L3HostContext
) -> RouterPart | None:
    """Return the part of *router* that has a floating IP; ``None``: none on this host.

    Forwarded ports are always at the part with the gateway.
    """
    if context.enable_inat_enat:
        return None
    if router.full is not None:
        return RouterPart.FULL
    if floating.host is not None and floating.fixed_address is not None:
        is_here = floating.host == context.host and router.local is not None
        return RouterPart.LOCAL if is_here else None
    return RouterPart.CENTRAL if router.central is not None else None


def gateway_of(router: RouterState | None) -> Gateway | None:
    """Return the gateway of the full or central part of a router, if it has one here."""
    if router is None:
        return None
    if router.central is not None:
        return router.central.gateway
    return None if router.full is None else router.full.gateway


def gateway_port_of(router: RouterState | None) -> PortId | None:
    """Return the gateway port of a router, if it has one here."""
    gateway = gateway_of(router)
    return None if gateway is None else gateway.port.id


def ha_of(router: RouterState) -> HighAvailability | None:
    """Return the settings of a router that is highly available on this host."""
    part = router.full or router.central
    return None if part is None else part.ha


def _refusal(router: Router, context: L3HostContext) -> str | None:
    """Return why this host cannot run *router*; ``None``: it can."""
    network = None if router.gateway is None else router.gateway.network_id
    if not context.agent_mode.runs_full_routers:
        mode = context.agent_mode
        return f"the router is not distributed, and agent_mode of this host is {mode}"
    if router.ha and not context.supports_ha:
        return NO_HA
    if network is None and not context.handle_internal_only_routers:
        return "the router has no gateway, and handle_internal_only_routers is false on this host"
    return context.gateway_problem(network)
