"""Binding of router ports to the hosts of their routers.

A plain router is on one host with all its ports. Of a distributed router, the gateway and the ports
of the central part are on the host of that part, and interfaces are on every host. The ports of a
highly available router are on all its hosts at once, and bound to the active one as soon as it is
known; beside them, each host has an HA port of its own.
"""

from __future__ import annotations

from typing import Any, Final, cast
from uuid import UUID

from attrs import evolve

from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Query
from netfw.drivers.values.subscription import Service
from netfw.model.agent import Agent
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, ref
from netfw.model.router import Router
from netfw.model.values.device_owner import (
    DeviceOwner,
    is_distributed,
    is_router_attachment,
)
from netfw.server.agents.agents import L3_AGENT
from netfw.server.core.server_context import ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.allocation.vrids import VridStore
from netfw.server.l3.ha.ha_networks import acquire_vrid, update_ha_ports
from netfw.server.l3.router_ports import change_port, kind_of, read_router_ports, router_of
from netfw.server.scheduling.rescheduler import run_each_as_server

LEFT_OWNERS: Final = (DeviceOwner.ROUTER_HA_INTERFACE.value, DeviceOwner.ROUTER_GATEWAY.value)
"""Owners of the ports by which the routers of a host are found after its agent is deleted."""


def follow_agents(unit: UnitOfWork, target: Ref) -> None:
    """Bind the ports of a router whose agents changed."""
    if target.kind is Kind.ROUTER:
        _bind(unit, target)


def bind_changed_router_ports(unit: UnitOfWork, change: Change) -> None:
    """Bind new ports of a router, and all ports of one that became of another kind, or that was on
    the host of a deleted agent.

    It is a :data:`.PrecommitHook`, after that of the scheduler.
    """
    match change.before, change.after:
        case Router() as before, Router() as router if kind_of(before) != kind_of(router):
            _bind(unit, ref(router))
        case before, Port() as port if is_router_attachment(port.device_owner):
            known = isinstance(before, Port) and before.device_id == port.device_id
            router_id = None if known else router_of(port)
            if router_id is not None:  # else no agent will plug it
                _bind(unit, Ref(Kind.ROUTER, router_id))
        case Agent(agent_type=kind, host=host), None if kind == L3_AGENT:
            _leave_host(unit, host)
        case _:
            pass


def _leave_host(unit: UnitOfWork, host: str) -> None:
    """Run the hooks of the highly available and distributed routers that were on *host*, whose
    agent is gone."""
    filters = {"binding:host_id": (host,), "device_owner": LEFT_OWNERS}
    rows = unit.tx.resources.find(Kind.PORT, Query(filters=filters))
    named = {router_of(cast(Port, row.resource())) for row in rows}
    refs = {Ref(Kind.ROUTER, id) for id in named if id is not None}
    found = unit.tx.resources.present(refs) if refs else ()
    routers = [row.ref.id for row in found if row.body["ha"] or row.body["distributed"]]
    for id in unit.tx.statuses.get_for_update(Kind.ROUTER, routers):
        for hook in unit.context.reassignment_hooks:
            hook(unit, Ref(Kind.ROUTER, id))


class VridAllocator:
    """Gives the highly available routers of earlier releases their virtual router ids and HA ports.

    It is done when none is left: routers get theirs when they become highly available.
    """

    def __init__(self, context: ServerContext) -> None:
        self._context, self._is_done = context, False

    def reconcile(self) -> int:
        """Allocate what is missing, each router in a transaction of its own; return how many
        changed."""
        if self._is_done:
            return 0
        lacking = self._context.read(
            lambda view: VridStore(view.connection).find_routers_without_vrid()
        )
        self._is_done = not lacking
        targets = (Ref(Kind.ROUTER, id) for id in lacking)
        return run_each_as_server(self._context, _allocate_vrid, targets)


def _allocate_vrid(unit: UnitOfWork, id: UUID) -> bool:
    router = cast(Router, unit.tx.resources.get(Kind.ROUTER, id, lock=True).resource())
    if not router.ha or router.vrid is not None:
        return False
    unit.update(router, evolve(router, vrid=acquire_vrid(unit, router)))
    _bind(unit, ref(router))
    return True


def _bind(unit: UnitOfWork, target: Ref) -> None:
    rows = unit.tx.resources.present([target])
    if not rows:
        return
    router = cast(Router, rows[0].resource())
    assigned = unit.tx.assignments.of([target])
    hosts = frozenset(each.host for each in assigned if each.service is Service.L3)
    if router.ha:
        update_ha_ports(unit, router, hosts)
    ports = read_router_ports(unit.tx, router.id).ports
    active = next((port.binding.host for port in ports if port.binding.hosts), "")
    for port in sorted(ports, key=lambda port: port.id):  # all transactions lock in this order
        if change := plan_binding(router, port, hosts, active):
            change_port(unit, port.id, change)


def plan_binding(router: Router, port: Port, hosts: frozenset[str], active: str) -> dict[str, Any]:
    """Return the attributes by which the binding of a port of *router* changes.

    *hosts*: those of the router; *active*: the one that is known to be active, or empty.
    """
    binding = port.binding
    host, several = binding.host, frozenset[str]()
    if is_distributed(port.device_owner):
        host = ""  # it is on every host
    elif router.ha:
        several = hosts
        if binding.host not in hosts or not binding.hosts:
            host = active if active in hosts else ""
    elif len(hosts) == 1:
        (host,) = hosts
    change: dict[str, Any] = {}
    if host != binding.host:
        change["binding:host_id"] = host
    if several != binding.hosts:
        change["binding:hosts"] = sorted(several)
    return change
