"""Inside ports of floating IPs and port forwardings, and the routers that lead to them.

All transactions lock in one order: routers, then ports, then floating IPs; several of a kind in the
order of their ids. A transaction that changes a port, or the agents of a router, comes to the
floating IPs last, so an association locks the port and its routers before the floating IP.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast
from uuid import UUID

from netfw.drivers.server.query import Query
from netfw.errors.requests import BadRequest
from netfw.errors.routers import ExternalGatewayForFloatingIPNotFound
from netfw.model.floating_ip import FloatingIp
from netfw.model.port import FixedIp, Port
from netfw.model.resource import Kind, Ref
from netfw.model.router import Router
from netfw.model.subnet import Subnet
from netfw.model.values.device_owner import ROUTER_INTERFACES, is_trusted
from netfw.model.values.ids import PortId, RouterId, SubnetId
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.l3.router_ports import read_router_ports, router_of


def lock_inside_ports(unit: UnitOfWork, named: Iterable[object]) -> None:
    """Lock the ports that a request names, and before them the routers on their subnets.

    A port that the requester cannot see is skipped; :func:`get_inside_port` reports it.
    """
    ids = {str(each) for each in named if each is not None}
    if not ids:
        return
    query = Query(filters={"id": tuple(sorted(ids))})
    rows = unit.tx.resources.find(Kind.PORT, query, project=unit.requester.sees)
    ports = [cast(Port, row.resource()) for row in rows]
    subnets = {fixed.subnet_id for port in ports for fixed in port.fixed_ips}
    routers = {id for subnet in sorted(subnets) for id in _routers_on(unit, subnet)}
    unit.tx.statuses.get_for_update(Kind.ROUTER, routers)
    unit.tx.statuses.get_for_update(Kind.PORT, (port.id for port in ports))


def get_inside_port(unit: UnitOfWork, id: str) -> Port:
    """Return the port that a request names, locked.

    :raises NotFound: there is no such port that the requester may see.
    :raises BadRequest: it belongs to a router or to another part of the network itself.
    """
    row = unit.tx.resources.get(Kind.PORT, UUID(id), project=unit.requester.sees, lock=True)
    port = cast(Port, row.resource())
    if is_trusted(port.device_owner):
        text = f"port {port.id} belongs to the network itself ({port.device_owner})"
        raise BadRequest({"port_id": text})
    return port


def choose_fixed_ip(
    unit: UnitOfWork, floating: FloatingIp, port: Port, requested: str | None
) -> FixedIp:
    """Return the address of *port* that *floating* leads to: the one *requested*, or the only one.

    :raises BadRequest: there is no such address, or the port is of another project.
    """
    if port.project_id != floating.project_id and not unit.requester.admin:
        raise BadRequest({"port_id": f"port {port.id} belongs to another project"})
    inside = [each for each in port.fixed_ips if each.address.version == floating.address.version]
    if requested is not None:
        inside = [each for each in inside if str(each.address) == requested]
        if not inside:
            raise BadRequest({"fixed_ip_address": f"port {port.id} does not have {requested}"})
    if not inside:
        raise BadRequest({"port_id": f"port {port.id} has no IPv4 address"})
    if len(inside) > 1:
        raise BadRequest(
            {"fixed_ip_address": f"port {port.id} has several IPv4 addresses; name one"}
        )
    return inside[0]


def find_router(
    unit: UnitOfWork,
    floating: FloatingIp,
    port: PortId,
    fixed: FixedIp,
    only: RouterId | None = None,
) -> Router:
    """Return the router that leads from the inside to the outside address, locked.

    Of several, return the one that is the gateway of the inside subnet. *only*: the one that the
    floating IP has already.

    :raises ExternalGatewayForFloatingIPNotFound: there is none.
    """
    candidates = _routers_on(unit, fixed.subnet_id)
    for id in candidates if only is None else [id for id in candidates if id == only]:
        router = cast(Router, unit.tx.resources.get(Kind.ROUTER, id, lock=True).resource())
        if router.gateway is None or router.gateway.network_id != floating.network_id:
            continue
        if read_router_ports(unit.tx, id).on(fixed.subnet_id) is not None:
            return router
    if only is not None:
        raise ExternalGatewayForFloatingIPNotFound(
            f"router {only}, which has the other port forwardings of floating IP "
            f"{floating.address}, has no interface on subnet {fixed.subnet_id} of port {port}"
        )
    raise ExternalGatewayForFloatingIPNotFound(
        f"no router leads from subnet {fixed.subnet_id} of port {port} to external network "
        f"{floating.network_id}; give one an interface there and a gateway here"
    )


def _routers_on(unit: UnitOfWork, subnet_id: SubnetId) -> list[UUID]:
    """Return the routers with an interface on a subnet; the one with its gateway address first.

    An administrator can create a port that merely names a router.
    """
    filters: Mapping[str, tuple[Any, ...]] = {
        "device_owner": ROUTER_INTERFACES,
        "fixed_ips": (f"subnet_id={subnet_id}",),
    }
    rows = unit.tx.resources.find(Kind.PORT, Query(filters=filters))
    ports = [cast(Port, row.resource()) for row in rows]
    if len(ports) > 1:
        row = unit.tx.resources.get(Kind.SUBNET, subnet_id)
        gateway = cast(Subnet, row.resource()).gateway
        ports.sort(key=lambda port: all(fixed.address != gateway for fixed in port.fixed_ips))
    named = [Ref(Kind.ROUTER, id) for port in ports if (id := router_of(port)) is not None]
    existing = {row.ref for row in unit.tx.resources.present(named)}
    return [each.id for each in named if each in existing]
