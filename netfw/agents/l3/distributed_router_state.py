"""The desired state of the parts of one distributed router on this host.  Pure.

The source delivers such a router to the hosts that have, or prepare for, a port on one of its
subnets, and to those that its central part is assigned to.  The bindings of the gateway and of the
ports of the central part tell which these are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import evolve, frozen

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
    make_router_port,
)
from netfw.drivers.values.router_values import (
    CentralRouter,
    LocalRouter,
    RouterPort,
    RouterState,
)
from netfw.model.port import Port
from netfw.model.router import Router
from netfw.model.subnet import PROVISIONAL_PREFIX
from netfw.model.values.address import IpAddress
from netfw.model.values.device_owner import DeviceOwner
from netfw.model.values.ids import SubnetId

LEGACY_MODE = "the router is distributed, and agent_mode of this host is legacy"


@frozen(kw_only=True)
class DistributedRouter:
    """The parts of a distributed router that are to be on this host."""

    state: RouterState
    left_out: str = ""
    """Why its central part, which is assigned to this host, is not to be here."""


def make_distributed_router(
    router: Router, index: L3ResourceIndex, context: L3HostContext
) -> DistributedRouter | NotOnHost | None:
    """Return the desired parts of *router*, without contributions; ``None``: not this host's."""
    ports = [port for port in index.ports(router.id) if port.admin_up]
    is_assigned = _has_central_part(ports, context)
    if not context.agent_mode.runs_local_parts and not is_assigned:
        return None  # delivered since an instance of this host is on one of its subnets
    if not router.admin_up:
        return NotOnHost(reason=ADMIN_DOWN)
    if not context.agent_mode.runs_local_parts:
        return NotOnHost(reason=LEGACY_MODE, refused=True)
    central = _make_central(router, ports, index, context) if is_assigned else None
    return DistributedRouter(
        state=RouterState(
            local=_make_local(router, ports, index, context),
            central=central if isinstance(central, CentralRouter) else None,
            routes=router.routes,
            metadata_port=context.metadata_port,
        ),
        left_out=central.reason if isinstance(central, NotOnHost) else "",
    )


def is_central_here(router: Router, index: L3ResourceIndex, context: L3HostContext) -> bool:
    """Return whether this host runs, or should run, the central part of *router*."""
    ports = (port for port in index.ports(router.id) if port.admin_up)
    return context.agent_mode.runs_central_parts and _has_central_part(ports, context)


def _has_central_part(ports: Iterable[Port], context: L3HostContext) -> bool:
    """Return whether the gateway or a port of the central part is bound to this host."""
    owners = (DeviceOwner.ROUTER_GATEWAY, DeviceOwner.ROUTER_CENTRALIZED_SNAT)
    central = (port for port in ports if port.device_owner in owners)
    return any(port.binding.is_on(context.host) for port in central)


def _make_local(
    router: Router, ports: Sequence[Port], index: L3ResourceIndex, context: L3HostContext
) -> LocalRouter:
    network = None if router.gateway is None else router.gateway.network_id
    if not context.has_agent_gateways or context.gateway_problem(network) is not None:
        network = None
    gateway_port = find_gateway_port(ports)
    return LocalRouter(
        interfaces=make_interfaces(ports, index),
        snat_addresses={} if router.gateway is None else _snat_addresses(ports),
        external_network=network,
        gateway_port=None if gateway_port is None else gateway_port.id,
    )


def _snat_addresses(ports: Iterable[Port]) -> dict[SubnetId, IpAddress]:
    """Return the address of the central part on each subnet."""
    addresses: dict[SubnetId, IpAddress] = {}
    for port in _central_ports(ports):
        for fixed in port.fixed_ips:
            if fixed.address in PROVISIONAL_PREFIX:
                continue
            addresses.setdefault(fixed.subnet_id, fixed.address)
    return addresses


def _central_ports(ports: Iterable[Port]) -> list[Port]:
    return [port for port in ports if port.device_owner == DeviceOwner.ROUTER_CENTRALIZED_SNAT]


def _make_central(
    router: Router, ports: Sequence[Port], index: L3ResourceIndex, context: L3HostContext
) -> CentralRouter | NotOnHost | None:
    """Return the central part, or why this host cannot have it; ``None``: it has no gateway."""
    gateway_port = find_gateway_port(ports)
    if router.gateway is None or gateway_port is None:
        return None
    problem = _central_problem(router, context)
    if problem is not None:
        return NotOnHost(reason=problem, refused=True)
    ha = make_ha(router, ports, index, context) if router.ha else None
    if isinstance(ha, NotOnHost):
        return ha
    own = _describe_central_ports(ports, index)
    snat, ipv6 = router.gateway.enable_snat, has_ipv6(own)
    gateway = make_gateway(snat, gateway_port, index, context, ipv6)
    return None if gateway is None else CentralRouter(ports=own, gateway=gateway, ha=ha)


def _describe_central_ports(
    ports: Sequence[Port], index: L3ResourceIndex
) -> tuple[RouterPort, ...]:
    """Return the ports of the central part; prefixes are delegated to it as to the interfaces."""
    interfaces = make_interfaces(ports, index)
    delegated = frozenset(id for interface in interfaces for id in interface.delegated)
    described = ((port, make_router_port(port, index)) for port in _central_ports(ports))
    return tuple(
        evolve(made, delegated=delegated & {fixed.subnet_id for fixed in port.fixed_ips})
        for port, made in described
        if made is not None
    )


def _central_problem(router: Router, context: L3HostContext) -> str | None:
    """Return why this host cannot have the central part of *router*; ``None``: it can."""
    if not context.agent_mode.runs_central_parts:
        mode = context.agent_mode
        return f"it is assigned to this host, whose agent_mode is {mode}; it needs dvr_snat"
    if router.ha and not context.supports_ha:
        return NO_HA
    return context.gateway_problem(None if router.gateway is None else router.gateway.network_id)
