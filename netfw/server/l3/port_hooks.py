"""Pre-commit hook for ports that routers and floating IPs depend on.

It runs once at the end of a transaction, whichever request changed the port: a router keeps what
its routes and floating IPs need, a floating IP is disassociated from an address that is gone, port
forwardings to it are deleted, and a router's gateway shows the addresses of its port.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast
from uuid import UUID

from attrs import evolve

from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Query
from netfw.errors import NotFound
from netfw.errors.ports import UnsupportedPortDeviceOwner
from netfw.errors.routers import (
    RouterExternalGatewayInUseByFloatingIp,
    RouterInterfaceInUseByFloatingIP,
    RouterInterfaceInUseByRoute,
)
from netfw.model.floating_ip import FloatingIp
from netfw.model.port import Port
from netfw.model.resource import Kind, ref
from netfw.model.router import Router
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpAddress
from netfw.model.values.common_fields import Status
from netfw.model.values.device_owner import DeviceOwner, is_router_attachment, is_trusted
from netfw.model.values.ids import FloatingIpId, SubnetId
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.l3.floating_ips.forwarded_ports import (
    find_port_forwardings,
    has_port_forwardings,
    lock_floating_ips,
    release_router,
)
from netfw.server.l3.router_interfaces import reaches
from netfw.server.l3.router_ports import RouterPorts, quote_ids, read_router_ports, subnets_of

QUOTA: Final = "port_forwarding"


def release_floating_ips_or_refuse(unit: UnitOfWork, change: Change) -> None:
    """Release floating IPs from addresses that a port lost, or refuse the change of the port.

    It is a :data:`.PrecommitHook`.
    """
    before, after = change.before, change.after
    if not isinstance(before, Port):
        return
    now = cast("Port | None", after)
    if now is not None and _attached_alike(before, now):
        return
    if is_router_attachment(before.device_owner):
        _check_attachment(unit, before, now)
    if now is not None and is_trusted(now.device_owner) and not is_trusted(before.device_owner):
        _refuse_owner(unit, now)
    _release_floating_ips(unit, before, now)


def _attached_alike(before: Port, after: Port) -> bool:
    """Return whether neither the addresses nor the device changed, on which others depend."""
    names = ("fixed_ips", "device_id", "device_owner")
    return all(getattr(before, name) == getattr(after, name) for name in names)


def _release_floating_ips(unit: UnitOfWork, before: Port, after: Port | None) -> None:
    """Disassociate floating IPs from addresses that a port lost; delete port forwardings to
    them."""
    left = {fixed.address for fixed in after.fixed_ips} if after else set()
    if all(fixed.address in left for fixed in before.fixed_ips) and after is not None:
        return
    locked = _lock_floating_ips_of(unit, before)
    for floating in locked:
        if floating.port_id == before.id and floating.fixed_address not in left:
            unit.update(floating, disassociate(floating))
            unit.tx.statuses.delete([ref(floating)])
    gone = [
        forwarding
        for forwarding in find_port_forwardings(unit.tx, internal_port_id=[before.id])
        if forwarding.internal_address not in left
    ]
    for forwarding in gone:
        unit.delete(forwarding)
    unit.count(QUOTA, gone, gone=True)
    release_router(unit, locked)


def _refuse_owner(unit: UnitOfWork, port: Port) -> None:
    """Refuse that a port with floating IPs becomes one of the network itself."""
    if using := _lock_floating_ips_of(unit, port):
        raise UnsupportedPortDeviceOwner(
            f"port {port.id} has floating IPs ({quote_ids([each.address for each in using])}) and "
            f"cannot become {port.device_owner}; disassociate them, or delete their port "
            "forwardings, first"
        )


def _lock_floating_ips_of(unit: UnitOfWork, port: Port) -> list[FloatingIp]:
    """Return the floating IPs that lead to *port*, locked; while it is locked, none is added."""
    ids: set[UUID] = {each.id for each in find_floating_ips(unit, port_id=port.id)}
    forwardings = find_port_forwardings(unit.tx, internal_port_id=[port.id])
    ids.update(each.floating_ip_id for each in forwardings)
    return lock_floating_ips(unit, ids) if ids else []


def disassociate(floating: FloatingIp) -> FloatingIp:
    """Return *floating* without an association."""
    return evolve(
        floating,
        port_id=None,
        fixed_address=None,
        router_id=None,
        host=None,
        status=Status.DOWN,
    )


def _check_attachment(unit: UnitOfWork, before: Port, after: Port | None) -> None:
    router = _router(unit, before.device_id)
    if router is None:
        return
    still = after if after is not None and after.device_id == before.device_id else None
    lost = _subnets(before) - (_subnets(still) if still else set())
    if lost:
        # An association locks the router too, before it looks for the interface.
        router = cast(Router, unit.tx.resources.get(Kind.ROUTER, router.id, lock=True).resource())
        attached = read_router_ports(unit.tx, router.id)
        gone = [fixed for fixed in before.fixed_ips if fixed.subnet_id in lost]
        known = subnets_of(unit.tx, gone)
        _refuse_routes(router, attached)
        if before.device_owner == DeviceOwner.ROUTER_GATEWAY:
            _refuse_gateway(unit, router, still)
        else:
            _refuse_interface(unit, router, list(known.values()))
    if (
        before.device_owner == DeviceOwner.ROUTER_GATEWAY
        and still is not None
        and router.gateway is not None
    ):
        unit.update(
            router, evolve(router, gateway=evolve(router.gateway, fixed_ips=still.fixed_ips))
        )


def _refuse_routes(router: Router, attached: RouterPorts) -> None:
    for route in router.routes:
        if not reaches(attached.subnets.values(), route):
            raise RouterInterfaceInUseByRoute(
                f"router {router.id} needs the way to {route.nexthop} for its route to "
                f"{route.destination}; remove the route first"
            )


def _refuse_gateway(unit: UnitOfWork, router: Router, still: Port | None) -> None:
    using = [] if still is not None else find_floating_ips(unit, router_id=router.id)
    if using:
        raise RouterExternalGatewayInUseByFloatingIp(
            f"router {router.id} needs its gateway for floating IPs "
            f"({quote_ids([each.address for each in using])}); disassociate them, or delete their "
            "port forwardings, first"
        )


def _refuse_interface(unit: UnitOfWork, router: Router, lost: list[Subnet]) -> None:
    inside = _inside_addresses(unit, find_floating_ips(unit, router_id=router.id))
    using = [
        floating.address
        for floating, addresses in inside
        if any(address in subnet.cidr for address in addresses for subnet in lost)
    ]
    if using:
        raise RouterInterfaceInUseByFloatingIP(
            f"router {router.id} needs its interface on "
            f"{quote_ids([each.cidr for each in lost])} for floating IPs ({quote_ids(using)}); "
            "disassociate them, or delete their port forwardings, first"
        )


def _inside_addresses(
    unit: UnitOfWork, floating: list[FloatingIp]
) -> Iterator[tuple[FloatingIp, set[IpAddress]]]:
    """Yield the addresses that each of *floating* leads to."""
    ids = [each.id for each in floating if has_port_forwardings(each)]
    forwarded: dict[FloatingIpId, set[IpAddress]] = {}
    for forwarding in find_port_forwardings(unit.tx, floatingip_id=ids) if ids else ():
        addresses = forwarded.setdefault(forwarding.floating_ip_id, set())
        addresses.add(forwarding.internal_address)
    for each in floating:
        own = set() if each.fixed_address is None else {each.fixed_address}
        yield each, own | forwarded.get(each.id, set())


def find_floating_ips(unit: UnitOfWork, **filters: UUID) -> list[FloatingIp]:
    """Return the floating IPs of a port or a router."""
    query = Query(filters={name: (str(value),) for name, value in filters.items()})
    rows = unit.tx.resources.find(Kind.FLOATING_IP, query)
    return [cast(FloatingIp, row.resource()) for row in rows]


def _router(unit: UnitOfWork, id: str) -> Router | None:
    """Return the router of *id*, unless it is deleted in the same transaction."""
    try:
        return cast(Router, unit.tx.resources.get(Kind.ROUTER, UUID(id)).resource())
    except (ValueError, NotFound):
        return None


def _subnets(port: Port) -> set[SubnetId]:
    return {fixed.subnet_id for fixed in port.fixed_ips}
