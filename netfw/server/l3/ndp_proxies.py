"""NdpProxyHandler, and the service plugin for NDP proxies of routers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self, cast
from uuid import UUID, uuid4

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Body, Query
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.errors import Conflict
from netfw.errors.ndp_proxies import (
    AddressScopeConflict,
    InvalidAddress,
    PortUnreachableRouter,
    RouterGatewayInUseByNDPProxy,
    RouterInterfaceInUseByNDPProxy,
    RouterNDPProxyNotEnable,
)
from netfw.errors.requests import BadRequest
from netfw.model import l3_extensions
from netfw.model.ndp_proxy import NdpProxy
from netfw.model.network import Network
from netfw.model.port import FixedIp, Port
from netfw.model.resource import Kind
from netfw.model.router import Router
from netfw.model.values.address import IpAddress
from netfw.model.values.device_owner import DeviceOwner, is_router_attachment
from netfw.model.values.ids import NetworkId, SubnetId
from netfw.model.wire import parse, render
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import StoredResourceHandler
from netfw.server.core.server_context import ServerContext, server_context
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.l3.floating_ips.inside_ports import get_inside_port
from netfw.server.l3.router_ports import quote_ids, read_router_ports, router_of
from netfw.server.scheduling.missing_l3_extensions import check_extension

ADDRESS = "ip_address"


class NdpProxyHandler(StoredResourceHandler[NdpProxy]):
    """NDP proxies; all changes of those of a router lock the router."""

    name: ClassVar[str] = "ndp_proxy"
    kind: ClassVar[Kind] = Kind.NDP_PROXY
    quota: ClassVar[str | None] = None

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[NdpProxy, ...]:
        return tuple(_create(unit, body) for body in bodies)

    def do_update(self, unit: UnitOfWork, before: NdpProxy, body: Body) -> NdpProxy:
        after = cast(NdpProxy, parse(self.kind, {**render(before), **body}))
        return unit.update(before, after)

    def do_delete(self, unit: UnitOfWork, before: NdpProxy) -> None:
        unit.delete(before)


class NdpProxyPlugin(HandlerPlugin, ServicePlugin):
    """Service plugin for NDP proxies; it needs the plugin for routers."""

    VERSION: ClassVar[int] = 2

    def __init__(self, context: ServerContext) -> None:
        super().__init__(context, (NdpProxyHandler(),))
        context.precommit_hooks.append(delete_unserved_proxies)

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(server_context(host))

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("ndp_proxy")


def delete_unserved_proxies(unit: UnitOfWork, change: Change) -> None:
    """Delete the NDP proxies of addresses that a port lost; keep what those of a router need.

    A :data:`.PrecommitHook`.
    """
    before, after = change.before, cast("Port | None", change.after)
    if not isinstance(before, Port):
        return
    left = set() if after is None else {fixed.address for fixed in after.fixed_ips}
    lost = {fixed.address for fixed in before.fixed_ips} - left
    if not any(address.version == 6 for address in lost):
        return
    for proxy in _find(unit, port_id=before.id):
        if proxy.address in lost:
            unit.delete(proxy)
    router = router_of(before) if is_router_attachment(before.device_owner) else None
    if router is not None:
        _refuse_loss(unit, router, before, after)


def _refuse_loss(unit: UnitOfWork, router: UUID, before: Port, after: Port | None) -> None:
    """Refuse that a router loses the gateway, or an interface, that its NDP proxies need."""
    proxies = _find(unit, router_id=router)
    if not proxies:
        return
    if before.device_owner == DeviceOwner.ROUTER_GATEWAY:
        if after is None:
            raise RouterGatewayInUseByNDPProxy(
                f"router {router} needs its gateway for NDP proxies "
                f"({quote_ids([each.address for each in proxies])}); delete them first"
            )
        return
    kept = {each.subnet_id for each in after.fixed_ips} if after is not None else set()
    gone = [each.subnet_id for each in before.fixed_ips if each.subnet_id not in kept]
    cidrs = [subnet.cidr for subnet in unit.subnets(before.network_id) if subnet.id in gone]
    using = [each.address for each in proxies if any(each.address in cidr for cidr in cidrs)]
    if using:
        raise RouterInterfaceInUseByNDPProxy(
            f"router {router} needs its interface on {quote_ids(cidrs)} for NDP proxies "
            f"({quote_ids(using)}); delete them first"
        )


def _create(unit: UnitOfWork, body: Body) -> NdpProxy:
    routers = cast(StoredResourceHandler[Router], unit.context.handler("router"))
    router = routers.get_for_update(unit, str(body["router_id"]))
    port = get_inside_port(unit, str(body["port_id"]))
    reached = _reached_subnets(unit, router, port)
    check_extension(unit, router.id, l3_extensions.NDP_PROXY)
    if not router.enable_ndp_proxy or router.gateway is None:
        raise RouterNDPProxyNotEnable(
            f"NDP proxies are not enabled on router {router.id}; set enable_ndp_proxy first"
        )
    requested = body.get(ADDRESS)
    address = _choose(router, port, reached, None if requested is None else str(requested))
    _check_scopes(unit, router.gateway.network_id, port)
    values = {**body, "id": str(uuid4()), ADDRESS: str(address)}
    new = cast(NdpProxy, parse(Kind.NDP_PROXY, values))
    for other in _find(unit, router_id=router.id):
        if (other.port_id, other.address) == (new.port_id, new.address):
            raise Conflict(f"router {router.id} has NDP proxy {other.id} for {address} already")
    (stored,) = unit.insert(new)
    return stored


def _reached_subnets(unit: UnitOfWork, router: Router, port: Port) -> frozenset[SubnetId]:
    """Return the subnets of the interfaces of *router* on the network of *port*.

    :raises PortUnreachableRouter: the router has no interface there.
    """
    interfaces = read_router_ports(unit.tx, router.id).interfaces
    near = [each for each in interfaces if each.network_id == port.network_id]
    if not near:
        raise PortUnreachableRouter(
            f"router {router.id} has no interface on network {port.network_id} of port {port.id}"
        )
    return frozenset(fixed.subnet_id for each in near for fixed in each.fixed_ips)


def _choose(
    router: Router, port: Port, reached: Iterable[SubnetId], requested: str | None
) -> IpAddress:
    """Return the address of *port* to answer for: the one *requested*, or the first reached one."""
    inside = [each for each in port.fixed_ips if each.address.version == 6]
    if not inside:
        raise BadRequest({"port_id": f"port {port.id} has no IPv6 address"})
    near: list[FixedIp] = [each for each in inside if each.subnet_id in reached]
    if requested is None:
        if not near:
            raise PortUnreachableRouter(
                f"router {router.id} has no interface on an IPv6 subnet of port {port.id}"
            )
        return near[0].address
    chosen = [each for each in inside if str(each.address) == requested]
    if not chosen:
        raise InvalidAddress({ADDRESS: f"port {port.id} does not have {requested}"})
    if chosen[0] not in near:
        text = f"router {router.id} has no interface on the subnet of {requested}"
        raise InvalidAddress({ADDRESS: text})
    return chosen[0].address


def _check_scopes(unit: UnitOfWork, external: NetworkId, port: Port) -> None:
    outer, inner = (
        cast(Network, unit.tx.resources.get(Kind.NETWORK, id).resource()).ipv6_address_scope
        for id in (external, port.network_id)
    )
    if outer != inner:
        raise AddressScopeConflict(
            f"port {port.id} is in IPv6 address scope {inner}, and external network {external} in "
            f"{outer}; the router forwards only within one"
        )


def _find(unit: UnitOfWork, **filters: UUID) -> list[NdpProxy]:
    query = Query(filters={name: (str(value),) for name, value in filters.items()})
    return [cast(NdpProxy, row.resource()) for row in unit.tx.resources.find(Kind.NDP_PROXY, query)]
