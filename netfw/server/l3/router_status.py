"""L3Statuses: the statuses of routers and floating IPs, as their hosts report them.

A status is no change of the resource: its revision stays, and agents receive no update.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence, Set
from typing import Any, Final, cast
from uuid import UUID

from attrs import evolve, field, frozen

from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Query
from netfw.drivers.values.reports import Report, ReportResult, StatusReport
from netfw.drivers.values.subscription import Service
from netfw.model.floating_ip import FloatingIp
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, ref
from netfw.model.router import Router
from netfw.model.values.common_fields import Status
from netfw.model.values.device_owner import is_router_attachment
from netfw.server.agents.agents import L3_AGENT
from netfw.server.agents.status_reasons import render_reason
from netfw.server.core.resource_handler import Reader
from netfw.server.core.server_context import SERVER, ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.heartbeats import agents_on
from netfw.server.db.agents.stale_router_statuses import outdated_floating_ips, outdated_routers
from netfw.server.db.agents.status_reports import StatusReports
from netfw.server.db.database import ReadSnapshot
from netfw.server.db.resources.row import Row
from netfw.server.l3.router_ports import kind_of, router_of
from netfw.server.l3.status_decision import decide_floating_ip_status, decide_router_status
from netfw.server.scheduling.assignments import AgentAssignments
from netfw.server.scheduling.rescheduler import OrphanedAssignments, run_as_server
from netfw.server.scheduling.routers import find_routers_with_ports

KINDS: Final = (Kind.ROUTER, Kind.FLOATING_IP)
"""In the order in which all transactions lock them, as
:mod:`netfw.server.l3.floating_ips.inside_ports` says."""
AT_ONCE: Final = 100
"""Resources in one transaction."""
Hosts = Mapping[UUID, frozenset[str]]
"""The hosts that serve each router or floating IP."""


@frozen
class L3Statuses:
    """Records reports on routers and floating IPs, and sets the statuses that follow from them.

    Only reports of the present revision count, and only from hosts that serve the resource: those
    of the router, or the one host that a floating IP of a distributed router is at.
    """

    context: ServerContext
    _orphaned: OrphanedAssignments = field(init=False)

    @_orphaned.default
    def _make_orphaned(self) -> OrphanedAssignments:
        assignments = AgentAssignments(L3_AGENT, self.context.settings)
        return OrphanedAssignments(self.context, assignments)

    def __call__(self, reports: Sequence[Report]) -> ReportResult:
        """Handle the reports of routers and floating IPs among *reports*, in one transaction."""
        mine = [
            report
            for report in reports
            if isinstance(report, StatusReport)
            and report.ref.kind in KINDS
            and report.service is Service.L3
        ]
        if mine:
            self.context.run(SERVER, lambda unit: self._handle_reports(unit, mine))
        return ReportResult()

    def follow_agents(self, unit: UnitOfWork, target: Ref) -> None:
        """Recompute a router whose agents changed, and its floating IPs."""
        if target.kind is not Kind.ROUTER:
            return
        ids = {Kind.ROUTER: [target.id], Kind.FLOATING_IP: _floating_ips_of(unit, target.id)}
        for kind in KINDS:
            rows = unit.tx.statuses.get_for_update(kind, ids[kind])
            hosts = _serving_hosts(unit, kind, rows)
            _delete_former_reports(unit, rows, hosts)
            _recompute(unit, rows, hosts, _silent_hosts(unit, hosts))

    def follow_conversions(self, unit: UnitOfWork, change: Change) -> None:
        """Have a router of another kind, and its floating IPs, wait for the hosts, which create it
        anew.

        It is a :data:`.PrecommitHook`, after that of the scheduler.
        """
        match change.before, change.after:
            case Router() as before, Router() as router if kind_of(before) != kind_of(router):
                rows = unit.tx.statuses.get_for_update(Kind.ROUTER, [router.id])
                unit.tx.statuses.delete([ref(router)])
                hosts = _serving_hosts(unit, Kind.ROUTER, rows)
                _recompute(unit, rows, hosts, _silent_hosts(unit, hosts))
                _reset_floating_ips(unit, router.id)
            case _:
                pass

    def follow_ports(self, unit: UnitOfWork, change: Change) -> None:
        """Recompute a router without a host that gets its first port or loses its last one.

        It is a :data:`.PrecommitHook`, after that of the scheduler.
        """
        routers = {_router_id(change.before), _router_id(change.after)}
        if len(routers) == 1:
            return
        ids = [id for id in routers if id is not None]
        unserved = [id for id, hosts in hosts_of_routers(unit, ids).items() if not hosts]
        rows = unit.tx.statuses.get_for_update(Kind.ROUTER, unserved)
        _recompute(unit, rows, {id: frozenset() for id in rows}, frozenset())

    def reconcile(self) -> int:
        """Recompute what depends on agents that died, came back or were deleted.

        For a silent agent it waits until the failure detector confirms its death. Return how many
        statuses changed.
        """
        dead = self._orphaned.dead_hosts()
        changed = 0
        for kind, ids in self.context.read(lambda view: self._outdated(view, dead)).items():
            for at in range(0, len(ids), AT_ONCE):
                changed += self._reconcile_some(kind, ids[at : at + AT_ONCE], dead)
        return changed

    def _outdated(self, view: ReadSnapshot, dead: Set[str]) -> dict[Kind, Sequence[UUID]]:
        silent = AgentAssignments(L3_AGENT, self.context.settings).dead(view)
        return {
            Kind.ROUTER: outdated_routers(view.connection, dead, silent),
            Kind.FLOATING_IP: outdated_floating_ips(view.connection, dead, silent),
        }

    def _reconcile_some(self, kind: Kind, ids: Sequence[UUID], dead: Set[str]) -> int:
        changed = 0

        def recompute(unit: UnitOfWork) -> None:
            nonlocal changed
            rows = unit.tx.statuses.get_for_update(kind, ids)
            hosts = _serving_hosts(unit, kind, rows)
            _delete_former_reports(unit, rows, hosts)
            changed = _recompute(unit, rows, hosts, dead & _silent_hosts(unit, hosts))

        run_as_server(self.context, recompute)
        return changed

    @staticmethod
    def _handle_reports(unit: UnitOfWork, reports: Sequence[StatusReport]) -> None:
        for kind in KINDS:
            ids = [report.ref.id for report in reports if report.ref.kind is kind]
            rows = unit.tx.statuses.get_for_update(kind, ids)
            hosts = _serving_hosts(unit, kind, rows)
            counted = [report for report in reports if _counts(report, rows, hosts)]
            known = unit.tx.statuses.of({report.ref for report in counted})
            unit.tx.statuses.record(counted, known)
            reported = {report.ref.id: rows[report.ref.id] for report in counted}
            reporting = {report.host for report in counted}
            _recompute(unit, reported, hosts, _silent_hosts(unit, hosts) - reporting)


def _floating_ips_of(unit: UnitOfWork, router: UUID) -> list[UUID]:
    query = Query(filters={"router_id": (str(router),)})
    return [row.ref.id for row in unit.tx.resources.find(Kind.FLOATING_IP, query)]


def _reset_floating_ips(unit: UnitOfWork, router: UUID) -> None:
    """Set the floating IPs of a router to DOWN, whose reports on another kind of it do not count.

    They get another revision: hosts report each revision, but a status only once.
    """
    rows = unit.tx.statuses.get_for_update(Kind.FLOATING_IP, _floating_ips_of(unit, router))
    for row in rows.values():
        floating = cast(FloatingIp, row.resource())
        unit.tx.statuses.delete([row.ref])
        if floating.status is Status.DOWN:
            unit.touch(floating)
        else:
            unit.update(floating, evolve(floating, status=Status.DOWN))


def add_status_reasons(
    reader: Reader, kind: Kind, bodies: Sequence[MutableMapping[str, Any]]
) -> None:
    """Add to resources of *kind* why they are not ACTIVE, in one statement if any is not."""
    refs = {body["id"]: Ref(kind, UUID(body["id"])) for body in bodies}
    waiting = [refs[body["id"]] for body in bodies if _awaits_a_host(body)]
    reports = StatusReports(reader.connection).of(waiting) if waiting else {}
    for body in bodies:
        body["status_reason"] = render_reason(reports.get(refs[body["id"]], ()))


def _awaits_a_host(body: Mapping[str, Any]) -> bool:
    return body["status"] != Status.ACTIVE.value and bool(body.get("router_id", True))


def _router_id(resource: object) -> UUID | None:
    """Return the router of a port that is its interface or gateway."""
    if isinstance(resource, Port) and is_router_attachment(resource.device_owner):
        return router_of(resource)
    return None


def _router_refs(ids: Iterable[UUID]) -> list[Ref]:
    return [Ref(Kind.ROUTER, id) for id in ids]


def _counts(report: StatusReport, rows: Mapping[UUID, Row], hosts: Hosts) -> bool:
    row = rows.get(report.ref.id)
    return (
        row is not None
        and row.kind is report.ref.kind
        and row.body["revision_number"] == report.revision
        and report.host in hosts[report.ref.id]
    )


def _recompute(unit: UnitOfWork, rows: Mapping[UUID, Row], hosts: Hosts, dead: Set[str]) -> int:
    """Set the statuses of *rows*, which are of one kind; return how many changed."""
    known = unit.tx.statuses.of(row.ref for row in rows.values())
    needing = _needing_hosts(
        unit, [row for id, row in rows.items() if row.kind is Kind.ROUTER and not hosts[id]]
    )
    changed: dict[UUID, Status] = {}
    for id, row in rows.items():
        reports = {report.host: report.status for report in known.get(row.ref, ())}
        if row.kind is Kind.ROUTER:
            status = decide_router_status(hosts[id], dead, reports, needs_host=id in needing)
        else:
            status = decide_floating_ip_status(hosts[id], dead, reports)
        if status.value != row.body["status"]:
            changed[id] = status
    unit.tx.statuses.set(rows, changed)
    for id, status in changed.items():
        if (written := unit.tx.resources.written.get(rows[id].ref)) is not None:
            unit.tx.resources.written[rows[id].ref] = {**written, "status": status.value}
    return len(changed)


def _needing_hosts(unit: UnitOfWork, rows: Sequence[Row]) -> Set[UUID]:
    """Return those of the routers *rows* that work on no host unless one is assigned.

    They have ports. A distributed router works without, unless it has a gateway: each host creates
    its own part with the first instance there, and only the central part is assigned.
    """
    with_ports = find_routers_with_ports(unit.tx, [row.ref.id for row in rows])
    return {
        row.ref.id
        for row in rows
        if row.ref.id in with_ports
        and (row.body.get("external_gateway_info") or not row.body["distributed"])
    }


def _delete_former_reports(unit: UnitOfWork, rows: Mapping[UUID, Row], hosts: Hosts) -> None:
    """Delete the reports of hosts that do not serve *rows* any more."""
    known = unit.tx.statuses.of(row.ref for row in rows.values())
    former = [
        report
        for ref, reports in known.items()
        for report in reports
        if report.host not in hosts[ref.id]
    ]
    unit.tx.statuses.delete_reports(former)


def _serving_hosts(unit: UnitOfWork, kind: Kind, rows: Mapping[UUID, Row]) -> Hosts:
    """Return the hosts that serve each of *rows*, which are of one kind."""
    if kind is Kind.ROUTER:
        return hosts_of_routers(unit, rows)
    routers = {id: UUID(row.body["router_id"]) for id, row in rows.items() if row.body["router_id"]}
    assigned = hosts_of_routers(unit, set(routers.values()))
    hosts = {id: assigned[routers[id]] if id in routers else frozenset() for id in rows}
    local = {id: row.body["host"] for id, row in rows.items() if row.body.get("host")}
    return {id: frozenset({local[id]}) if id in local else hosts[id] for id in rows}


def hosts_of_routers(unit: UnitOfWork, ids: Collection[UUID]) -> Hosts:
    """Return the hosts that each of these routers is assigned to."""
    assigned = unit.tx.assignments.of(_router_refs(ids)) if ids else ()
    hosts: dict[UUID, set[str]] = {id: set() for id in ids}
    for each in assigned:
        if each.service is Service.L3:
            hosts[each.ref.id].add(each.host)
    return {id: frozenset(some) for id, some in hosts.items()}


def _silent_hosts(unit: UnitOfWork, hosts: Hosts) -> Set[str]:
    """Return those of *hosts* whose L3 agent is silent."""
    longest = unit.context.settings.agent_down_time
    every = {host for some in hosts.values() for host in some}
    return {
        host
        for host, agents in (agents_on(unit.tx.connection, every) if every else {}).items()
        for each in agents
        if each.agent.agent_type == L3_AGENT and each.silence is not None and each.silence > longest
    }
