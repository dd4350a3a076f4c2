"""Pre-commit hook: highly available routers have no address or route of their HA network.

Where a router has the address of another host on the HA network, or a route there, the hosts do not
hear each other, and all of them stay active.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast
from uuid import UUID

from netfw.drivers.server.change import Change
from netfw.errors import Conflict
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref
from netfw.model.router import Router, find_ha_overlap, find_ha_override
from netfw.model.subnet import Subnet
from netfw.model.values.address import IpNetwork, as_network
from netfw.model.values.device_owner import is_router_attachment
from netfw.model.values.route import Route
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.allocation.vrids import VridStore
from netfw.server.l3.router_ports import read_router_ports, router_of, subnets_of


def check_ha_prefixes(unit: UnitOfWork, change: Change) -> None:
    """Check new routes and addresses of a highly available router, and all of one that becomes so.

    It is a :data:`.PrecommitHook`, and does not object to what exists.

    :raises Conflict: they overlap the HA network, or the addresses that mark active hosts.
    """
    match change.before, change.after:
        case Router(ha=True, routes=old), Router(ha=True) as router:
            if new := [route for route in router.routes if route not in old]:
                _check(unit, router.id, routes=new)
        case _, Router(ha=True) as router:
            subnets = read_router_ports(unit.tx, router.id).subnets.values()
            _check(unit, router.id, subnets, router.routes)
        case before, Port() as port if is_router_attachment(port.device_owner):
            router_id = router_of(port)
            if router_id is not None and not _is_known(before, port) and _is_ha(unit, router_id):
                _check(unit, router_id, subnets_of(unit.tx, port.fixed_ips).values())
        case _:
            pass


def _is_known(before: object, port: Port) -> bool:
    """Return whether *port* was the router's with the same addresses before."""
    return (
        isinstance(before, Port)
        and before.device_id == port.device_id
        and before.fixed_ips == port.fixed_ips
    )


def _is_ha(unit: UnitOfWork, router: UUID) -> bool:
    rows = unit.tx.resources.present([Ref(Kind.ROUTER, router)])
    return any(cast(Router, row.resource()).ha for row in rows)


def _check(
    unit: UnitOfWork, router: UUID, subnets: Iterable[Subnet] = (), routes: Iterable[Route] = ()
) -> None:
    reserved = _ha_prefixes(unit, router)
    for subnet in subnets:
        if prefix := find_ha_overlap(subnet.cidr, reserved):
            raise Conflict(
                f"{subnet.cidr} of subnet {subnet.id} overlaps {prefix}, {_use(router)}; connect "
                "the router to a subnet with another prefix"
            )
    for route in routes:
        if prefix := find_ha_override(route.destination, reserved):
            raise Conflict(
                f"the route to {route.destination} would override that to {prefix}, {_use(router)};"
                " remove the route"
            )


def _use(router: UUID) -> str:
    return f"which the hosts of the highly available router {router} use among themselves"


def _ha_prefixes(unit: UnitOfWork, router: UUID) -> tuple[IpNetwork, ...]:
    """Return the prefix of the router's HA network; it may be older than the option."""
    network = VridStore(unit.tx.connection).network_of(router)
    if network is None:
        return (as_network(unit.context.settings.l3_ha_net_cidr),)
    return tuple(subnet.cidr for subnet in unit.subnets(network))
