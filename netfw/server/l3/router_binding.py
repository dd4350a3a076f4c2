"""Binding of router ports to the hosts of their routers.

A plain router is on one host with all its ports. Of a distributed router, the gateway is on the
host of the central part, and interfaces are on every host. The host of the ports of a highly
available router is unknown until an instance is active.
"""

from __future__ import annotations

from typing import cast
from uuid import UUID

from netfw.drivers.server.change import Change
from netfw.drivers.values.subscription import Service
from netfw.model.device_owner import DeviceOwner, is_router_attachment
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref
from netfw.model.router import Router
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.l3.router_ports import change_port, read_router_ports


def follow_agents(unit: UnitOfWork, target: Ref) -> None:
    """Bind the ports of a router whose agents changed."""
    if target.kind is Kind.ROUTER:
        _bind(unit, target)


def follow_ports(unit: UnitOfWork, change: Change) -> None:
    """Bind new ports of a router; a :data:`~netfw.server.core.context.PrecommitHook`."""
    before, after = change.before, change.after
    if not isinstance(after, Port) or not is_router_attachment(after.device_owner):
        return
    known = isinstance(before, Port) and before.device_id == after.device_id
    if known or after.binding.host:
        return
    try:
        _bind(unit, Ref(Kind.ROUTER, UUID(after.device_id)))
    except ValueError:
        return  # the port names no router: no agent will plug it


def _bind(unit: UnitOfWork, target: Ref) -> None:
    rows = unit.tx.resources.present([target])
    hosts = [each.host for each in unit.tx.assignments.of([target]) if each.service is Service.L3]
    if not rows or len(hosts) != 1:
        return
    router = cast(Router, rows[0].resource())
    if router.ha:
        return
    attached = read_router_ports(unit.tx, router.id)
    for port in attached.ports:
        somewhere = port.device_owner == DeviceOwner.ROUTER_GATEWAY or not router.distributed
        if somewhere and port.binding.host != hosts[0]:
            change_port(unit, port.id, {"binding:host_id": hosts[0]})
