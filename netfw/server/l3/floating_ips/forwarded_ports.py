"""Stored port forwardings, as floating IPs and the hooks of ports need them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast
from uuid import UUID

from attrs import evolve

from netfw.drivers.server.query import Query
from netfw.model.floating_ip import FloatingIp, PortForwarding
from netfw.model.resource import Kind, ref
from netfw.model.values.common_fields import Status
from netfw.model.wire import render
from netfw.server.core.resource_handler import Reader
from netfw.server.core.unit_of_work import UnitOfWork

SHOWN: Final = ("id", "internal_port_id", "internal_ip_address", "protocol")


def find_port_forwardings(reader: Reader, **filters: Iterable[UUID]) -> list[PortForwarding]:
    """Return the port forwardings of floating IPs or of ports, in one statement."""
    query = Query(filters={name: tuple(map(str, values)) for name, values in filters.items()})
    rows = reader.resources.find(Kind.PORT_FORWARDING, query)
    return [cast(PortForwarding, row.resource()) for row in rows]


def has_port_forwardings(floating: FloatingIp) -> bool:
    """Return whether *floating* has port forwardings: it has a router, but no port."""
    return floating.port_id is None and floating.router_id is not None


def render_forwarded(forwarding: PortForwarding) -> dict[str, Any]:
    """Return *forwarding* as a floating IP shows it: ports as a number, or else as a range."""
    body = render(forwarding)
    rendered = {name: body[name] for name in SHOWN}
    for name in ("external_port", "internal_port"):
        chosen = name if name in body else f"{name}_range"
        rendered[chosen] = body[chosen]
    return rendered


def lock_floating_ips(unit: UnitOfWork, ids: Iterable[UUID]) -> list[FloatingIp]:
    """Return those of the floating IPs *ids* that exist, locked in the order of their ids."""
    rows = unit.tx.statuses.get_for_update(Kind.FLOATING_IP, ids)
    return [cast(FloatingIp, row.resource()) for row in rows.values()]


def release_router(unit: UnitOfWork, locked: Iterable[FloatingIp]) -> None:
    """Remove the router from those of the *locked* floating IPs that have no port forwarding any
    more."""
    forwarding = {each.id: each for each in locked if has_port_forwardings(each)}
    if not forwarding:
        return
    left = find_port_forwardings(unit.tx, floatingip_id=forwarding)
    for id in forwarding.keys() - {each.floating_ip_id for each in left}:
        unit.update(forwarding[id], evolve(forwarding[id], router_id=None, status=Status.DOWN))
        unit.tx.statuses.delete([ref(forwarding[id])])
