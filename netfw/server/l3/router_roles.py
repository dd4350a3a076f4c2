"""RouterRoles: the roles of highly available routers, as their hosts report them.

The ports of a router are bound to its active host. That changes nothing on any host: each has the
ports, and the switches reach the active one by themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final
from uuid import UUID

from attrs import frozen

from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Query
from netfw.drivers.values.reports import Report, ReportResult, RoleReport
from netfw.model.device_owner import ROUTER_ATTACHMENTS, is_distributed
from netfw.model.ids import PortId
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref
from netfw.model.router import HaRole, Router
from netfw.server.core.context import SERVER, ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.router_roles import RoleKey, RouterRoleRows
from netfw.server.l3.role_decision import decide_active_host, find_active_hosts
from netfw.server.l3.router_ports import change_port, router_of
from netfw.server.l3.router_status import hosts_of_routers

LOG = logging.getLogger(__name__)

NOBODY: Final[Mapping[UUID, str]] = MappingProxyType({})
BOUND: Final = tuple(owner for owner in ROUTER_ATTACHMENTS if not is_distributed(owner))
"""Owners of the ports that are bound to the active host."""
AT_ONCE: Final = 100
"""Roles in one transaction."""
Reported = Mapping[RoleKey, HaRole]
"""Roles in the order in which they were reported."""


@frozen
class RouterRoles:
    """Records the roles that L3 agents report, and binds the ports of routers to active hosts.

    A role is a fact of its host, whatever revision of the router it has; it counts if the router is
    assigned to the host.
    """

    context: ServerContext

    def __call__(self, reports: Sequence[Report]) -> ReportResult:
        """Handle the roles among *reports*; those that are known cost no transaction."""
        roles = {
            (report.ref.id, report.host): report.role
            for report in reports
            if isinstance(report, RoleReport) and report.ref.kind is Kind.ROUTER
        }
        if roles:
            new = self.context.read(lambda view: RouterRoleRows(view.connection).find_new(roles))
            keys = tuple(new)
            for at in range(0, len(keys), AT_ONCE):
                part = {key: new[key] for key in keys[at : at + AT_ONCE]}
                self.context.run(SERVER, _record, part)
        return ReportResult()


def follow_agents(unit: UnitOfWork, target: Ref) -> None:
    """Delete the roles of hosts that a router was removed from, and bind its ports elsewhere."""
    if target.kind is not Kind.ROUTER:
        return
    known = unit.tx.roles.of([target.id])[target.id]
    gone = known.keys() - hosts_of_routers(unit, [target.id])[target.id]
    if gone:
        unit.tx.roles.delete(target.id, gone)
        _bind_ports(unit, [target.id])


def follow_changes(unit: UnitOfWork, change: Change) -> None:
    """Bind a new port to the active host of its router; delete the roles of a router that is no
    longer highly available.

    It is a :data:`~netfw.server.core.context.PrecommitHook`.
    """
    match change.before, change.after:
        case Router(ha=True), Router(ha=False) as router:
            unit.tx.roles.delete(router.id, unit.tx.roles.of([router.id])[router.id])
        case _, Port() as port if port.device_owner in BOUND and not port.binding.host:
            router_id = router_of(port)
            if router_id is not None and unit.tx.roles.of([router_id])[router_id]:
                _bind_ports(unit, [router_id])


def _record(unit: UnitOfWork, reported: Reported) -> None:
    """Store roles of the hosts of highly available routers, and bind the ports of those routers."""
    rows = unit.tx.statuses.get_for_update(Kind.ROUTER, (router for router, _ in reported))
    hosts = hosts_of_routers(unit, [id for id, row in rows.items() if row.body["ha"]])
    new = unit.tx.roles.record(
        {key: role for key, role in reported.items() if key[1] in hosts.get(key[0], ())}
    )
    last = {router: host for (router, host), role in new.items() if role is HaRole.ACTIVE}
    _bind_ports(unit, {router for router, _ in new}, last)


def _bind_ports(
    unit: UnitOfWork, routers: Iterable[UUID], last: Mapping[UUID, str] = NOBODY
) -> None:
    """Bind the ports of *routers* to the active hosts, in the order of the ports' ids.

    *last* has the hosts that became active just now.
    """
    ids = sorted(routers)
    if not ids:
        return
    hosts, roles = hosts_of_routers(unit, ids), unit.tx.roles.of(ids)
    filters = {"device_id": tuple(map(str, ids)), "device_owner": BOUND}
    for row in unit.tx.resources.find(Kind.PORT, Query(filters=filters)):
        id, former = UUID(row.body["device_id"]), row.body["binding:host_id"]
        active = decide_active_host(hosts[id], roles[id], former, last.get(id))
        if active != former:
            change_port(unit, PortId(row.ref.id), {"binding:host_id": active})
    for id, host in last.items():
        others = sorted(find_active_hosts(hosts[id], roles[id]) - {host})
        if others:
            unit.after_commit.append(partial(_warn_of_several, id, host, others))


def _warn_of_several(router: UUID, host: str, others: Sequence[str]) -> None:
    LOG.warning(
        "router %s: active on %s, and by their last report on %s too; its ports are bound to %s. "
        "If this lasts, the hosts do not reach each other on the HA network",
        router,
        host,
        ", ".join(others),
        host,
    )
