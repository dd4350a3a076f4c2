"""Distributed routers, and what the database has of them."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from netfw.drivers.server.query import Query, RequestContext
from netfw.model.floating_ip import FloatingIp
from netfw.model.port import Port
from netfw.model.resource import Kind
from netfw.model.values.device_owner import DeviceOwner
from tests.lab.server.l3.environment import ADMIN, ANNA, Layer3

SNAT = DeviceOwner.ROUTER_CENTRALIZED_SNAT.value
GATEWAY = DeviceOwner.ROUTER_GATEWAY.value


def dvr_router(core: Layer3, who: RequestContext = ANNA, **body: Any) -> str:
    """Create a distributed router of a project."""
    return core.router(ADMIN, project_id=who.project_id, distributed=True, **body)


def ports_with(core: Layer3, router: str, owner: str) -> list[Port]:
    """Return the ports of a router with this owner, with the fields that the API hides."""
    query = Query(filters={"device_id": (router,), "device_owner": (owner,)})
    rows = core.context.read(lambda view: view.resources.find(Kind.PORT, query))
    return [cast(Port, row.resource()) for row in rows]


def central_subnets(core: Layer3, router: str) -> list[list[str]]:
    """Return the subnets of each port of the central part, in order."""
    ports = ports_with(core, router, SNAT)
    return sorted(sorted(str(fixed.subnet_id) for fixed in port.fixed_ips) for port in ports)


def central_hosts(core: Layer3, router: str) -> set[tuple[str, frozenset[str]]]:
    """Return the hosts to which the gateway and the other ports of the central part are bound."""
    ports = [*ports_with(core, router, SNAT), *ports_with(core, router, GATEWAY)]
    return {(port.binding.host, port.binding.hosts) for port in ports}


def floating_ip(core: Layer3, id: str) -> FloatingIp:
    """Return a floating IP with the fields that the API hides."""
    row = core.context.read(lambda view: view.resources.get(Kind.FLOATING_IP, UUID(id)))
    return cast(FloatingIp, row.resource())
