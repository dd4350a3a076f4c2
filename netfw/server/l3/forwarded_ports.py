"""Stored port forwardings, as floating IPs and the hooks of ports need them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast
from uuid import UUID

from attrs import evolve

from netfw.drivers.query import Query
from netfw.model.common_fields import Status
from netfw.model.floating_ip import FloatingIp, PortForwarding
from netfw.model.ids import FloatingIpId
from netfw.model.resource import Kind, Ref, ref
from netfw.model.wire import render
from netfw.server.core.resource_handler import Moment
from netfw.server.core.unit_of_work import UnitOfWork

QUOTA: Final = "port_forwarding"
SHOWN: Final = ("id", "internal_port_id", "internal_ip_address", "protocol")


def find_port_forwardings(moment: Moment, **filters: Iterable[UUID]) -> list[PortForwarding]:
    """Return the port forwardings of floating IPs or of ports, in one statement."""
    query = Query(filters={name: tuple(map(str, values)) for name, values in filters.items()})
    rows = moment.resources.find(Kind.PORT_FORWARDING, query)
    return [cast(PortForwarding, row.resource()) for row in rows]


def forwards(floating: FloatingIp) -> bool:
    """Return whether *floating* has port forwardings: it has a router, but no port."""
    return floating.port_id is None and floating.router_id is not None


def render_forwarded(forwarding: PortForwarding) -> dict[str, Any]:
    """Return *forwarding* as a floating IP shows it: ports as a number, or else as a range."""
    body = render(forwarding)
    shown = {name: body[name] for name in SHOWN}
    for name in ("external_port", "internal_port"):
        chosen = name if name in body else f"{name}_range"
        shown[chosen] = body[chosen]
    return shown


def delete_port_forwardings(unit: UnitOfWork, gone: Iterable[PortForwarding]) -> None:
    """Delete port forwardings because their inside address is gone."""
    forwardings = list(gone)
    for each in forwardings:
        unit.delete(each)
    unit.count(QUOTA, forwardings, gone=True)
    release_router(unit, {each.floating_ip_id for each in forwardings})


def release_router(unit: UnitOfWork, floating_ips: Iterable[FloatingIpId]) -> None:
    """Take the router from those of *floating_ips* that have no port forwarding any more."""
    ids = sorted(floating_ips)
    if not ids:
        return
    left = {each.floating_ip_id for each in find_port_forwardings(unit.tx, floatingip_id=ids)}
    for row in unit.tx.resources.present(Ref(Kind.FLOATING_IP, id) for id in ids):
        floating = cast(FloatingIp, row.resource())
        if floating.id not in left:
            unit.update(floating, evolve(floating, router_id=None, status=Status.DOWN))
            unit.tx.statuses.delete([ref(floating)])
