"""RouterRoles: the roles of highly available routers, as their hosts report them.

The ports of a router are bound to its active host. That changes nothing on any host: each has the
ports, and the switches reach the active one by themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final
from uuid import UUID

from attrs import frozen

from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Query
from netfw.drivers.values.reports import Report, ReportResult, RoleReport
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref
from netfw.model.router import HaRole, Router
from netfw.model.values.device_owner import is_distributed
from netfw.model.values.ids import PortId
from netfw.server.agents.agents import L3_AGENT
from netfw.server.core.resource_handler import Reader
from netfw.server.core.server_context import SERVER, ServerContext
from netfw.server.core.settings import Settings
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.router_roles import HostRole, RoleKey, RouterRoleRows
from netfw.server.db.database import ReadSnapshot
from netfw.server.db.resources.row import Row
from netfw.server.l3.ha.role_decision import decide_active_host, find_active_hosts
from netfw.server.l3.ha.split_detection import SplitDetector
from netfw.server.l3.router_ports import BOUND_WITH_ROUTER, bind_ports, router_of
from netfw.server.l3.router_status import hosts_of_routers
from netfw.server.scheduling.assignments import AgentAssignments

NOBODY: Final[Mapping[UUID, str]] = MappingProxyType({})
BOUND: Final = tuple(owner for owner in BOUND_WITH_ROUTER if not is_distributed(owner))
"""Owners of the ports that are bound to the active host."""
AT_ONCE: Final = 100
"""Roles in one transaction."""
Reported = Mapping[RoleKey, HostRole]
"""Roles in the order in which they were reported."""


@frozen
class RouterRoles:
    """Records the roles that L3 agents report, and binds the ports of routers to active hosts.

    A role is a fact of its host, whatever revision of the router it has; it counts if the router is
    assigned to the host, and if the host has not reported a later one, to this or another server.
    """

    context: ServerContext
    splits: SplitDetector

    def __call__(self, reports: Sequence[Report]) -> ReportResult:
        """Handle the roles among *reports*; those that change nothing cost no transaction."""
        roles = {
            (report.ref.id, report.host): HostRole(report.role, report.boot, report.since)
            for report in reports
            if isinstance(report, RoleReport) and report.ref.kind is Kind.ROUTER
        }
        keys = tuple(roles)
        for at in range(0, len(keys), AT_ONCE):
            part = {key: roles[key] for key in keys[at : at + AT_ONCE]}
            if new := self.context.read(partial(self._find_new, reported=part)):
                self.context.run(SERVER, self._record, new)
        return ReportResult()

    def _find_new(self, view: ReadSnapshot, reported: Reported) -> Reported:
        """Return those of the *reported* roles that differ from the stored ones, and those of
        active hosts whose router has a port that is bound to no living active host."""
        known = RouterRoleRows(view.connection).read(router for router, _ in reported)
        repeated = {key for key, new in reported.items() if known.get(key) == new}
        active = {key for key in repeated if reported[key].role is HaRole.ACTIVE}
        lost: set[UUID] = set()
        bound = _find_bound(view, {router for router, _ in active})
        elsewhere = {each for each in bound if each not in active}
        if elsewhere:
            dead = _dead_hosts(view, self.context.settings)
            alive = {
                key
                for key, its in known.items()
                if its.role is HaRole.ACTIVE and key[1] not in dead
            }
            lost = {router for router, host in elsewhere if (router, host) not in alive}
        return {
            key: new
            for key, new in reported.items()
            if key not in repeated or (key in active and key[0] in lost)
        }

    def _record(self, unit: UnitOfWork, reported: Reported) -> None:
        """Store roles of the hosts of highly available routers, and bind the ports of those
        routers."""
        rows = unit.tx.statuses.get_for_update(Kind.ROUTER, (router for router, _ in reported))
        hosts = hosts_of_routers(unit, [id for id, row in rows.items() if row.body["ha"]])
        counted = {key: new for key, new in reported.items() if key[1] in hosts.get(key[0], ())}
        valid = unit.tx.roles.record(counted)
        last = {router: host for (router, host), new in valid.items() if new.role is HaRole.ACTIVE}
        _bind_ports(unit, {router for router, _ in valid}, last)
        unit.after_commit += [partial(self.splits.add, router) for router in last]


def follow_agents(unit: UnitOfWork, target: Ref) -> None:
    """Delete the roles of hosts that a router was removed from, and bind its ports elsewhere."""
    if target.kind is not Kind.ROUTER:
        return
    known = unit.tx.roles.of([target.id])[target.id]
    gone = known.keys() - hosts_of_routers(unit, [target.id])[target.id]
    if gone:
        unit.tx.roles.delete(target.id, gone)
        _bind_ports(unit, [target.id])


def update_roles_and_bindings(unit: UnitOfWork, change: Change) -> None:
    """Bind a new port to the active host of its router; delete the roles of a router that is no
    longer highly available.

    It is a :data:`.PrecommitHook`.
    """
    match change.before, change.after:
        case Router(ha=True), Router(ha=False) as router:
            unit.tx.roles.delete(router.id, unit.tx.roles.of([router.id])[router.id])
        case _, Port() as port if port.device_owner in BOUND and not port.binding.host:
            router_id = router_of(port)
            if router_id is not None and unit.tx.roles.of([router_id])[router_id]:
                _bind_ports(unit, [router_id])


def _bind_ports(
    unit: UnitOfWork, routers: Iterable[UUID], last: Mapping[UUID, str] = NOBODY
) -> None:
    """Bind the ports of *routers* to the active hosts, in the order of the ports' ids.

    *last* has the hosts that reported just now that they are active.
    """
    ids = sorted(routers)
    if not ids:
        return
    hosts, roles = hosts_of_routers(unit, ids), unit.tx.roles.of(ids)
    others = {id: find_active_hosts(hosts[id], roles[id]) - {last.get(id)} for id in ids}
    dead = _dead_hosts(unit.tx, unit.context.settings) if any(others.values()) else frozenset()
    changed: dict[PortId, str] = {}
    for row in _find_ports(unit.tx, ids):
        id, former = UUID(row.body["device_id"]), row.body["binding:host_id"]
        active = decide_active_host(hosts[id], roles[id], former, last.get(id), dead)
        if active != former:
            changed[PortId(row.ref.id)] = active
    if changed:
        bind_ports(unit, changed)


def _find_ports(reader: Reader, routers: Collection[UUID]) -> tuple[Row, ...]:
    """Return the ports of *routers* that are bound to active hosts, in the order of their ids."""
    filters = {"device_id": tuple(map(str, sorted(routers))), "device_owner": BOUND}
    return tuple(reader.resources.find(Kind.PORT, Query(filters=filters))) if routers else ()


def _find_bound(reader: Reader, routers: Collection[UUID]) -> frozenset[RoleKey]:
    """Return the hosts that the ports of *routers* are bound to; empty: none."""
    return frozenset(
        (UUID(row.body["device_id"]), row.body["binding:host_id"])
        for row in _find_ports(reader, routers)
    )


def _dead_hosts(reader: Reader, settings: Settings) -> frozenset[str]:
    return AgentAssignments(L3_AGENT, settings).dead(reader)
