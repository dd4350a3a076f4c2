"""FloatingIpStatuses: the status of floating IPs, derived from the reports of agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from attrs import frozen

from netfw.drivers.reports import Report, ReportResult, StatusReport
from netfw.drivers.subscription import Service
from netfw.model.common_fields import Status
from netfw.model.resource import Kind, Ref
from netfw.server.core.context import SERVER, ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.resources.rows import Row
from netfw.state.dependencies import Assignment


@frozen
class FloatingIpStatuses:
    """Handles status reports of floating IPs; a message with many reports is one transaction.

    A floating IP is ACTIVE while the responsible host reports so: that of its router, or, for a
    distributed router, that of the inside port. A status is no change of the floating IP: its
    revision stays.
    """

    context: ServerContext

    def __call__(self, reports: Sequence[Report]) -> ReportResult:
        """Handle the reports of floating IPs among *reports*."""
        mine = [
            report
            for report in reports
            if isinstance(report, StatusReport)
            and report.ref.kind is Kind.FLOATING_IP
            and report.service is Service.L3
        ]
        if mine:
            self.context.run(SERVER, lambda unit: _handle_reports(unit, mine))
        return ReportResult()


def _handle_reports(unit: UnitOfWork, reports: Sequence[StatusReport]) -> None:
    rows = unit.tx.statuses.get_for_update(Kind.FLOATING_IP, (report.ref.id for report in reports))
    counted = _counting(unit, rows, reports)
    if not counted:
        return
    known = unit.tx.statuses.of({report.ref for report in counted})
    unit.tx.statuses.record(counted, known)
    statuses: dict[UUID, dict[str, Status]] = {}
    for report in (*(each for some in known.values() for each in some), *counted):
        statuses.setdefault(report.ref.id, {})[report.host] = report.status
    changed = {
        id: status
        for id, status in ((id, _together(hosts)) for id, hosts in statuses.items())
        if status.value != rows[id].body["status"]
    }
    unit.tx.statuses.set(rows, changed)


def _together(hosts: Mapping[str, Status]) -> Status:
    for status in (Status.ACTIVE, Status.ERROR):
        if status in hosts.values():
            return status
    return Status.DOWN


def _counting(
    unit: UnitOfWork, rows: Mapping[UUID, Row], reports: Sequence[StatusReport]
) -> list[StatusReport]:
    """Return the reports of the present revision, from hosts that are responsible for the floating
    IP."""
    bodies = {id: row.body for id, row in rows.items() if row.body["router_id"]}
    present = [
        report
        for report in reports
        if report.ref.id in bodies and bodies[report.ref.id]["revision_number"] == report.revision
    ]
    if not present:
        return []
    routers = {_ref(Kind.ROUTER, body["router_id"]) for body in bodies.values()}
    served = unit.tx.assignments.of(routers)
    inside = {_ref(Kind.PORT, body["port_id"]) for body in bodies.values() if body["port_id"]}
    ports = {
        row.body["id"]: row.body["binding:host_id"] for row in unit.tx.resources.present(inside)
    }

    def cares(report: StatusReport) -> bool:
        body = bodies[report.ref.id]
        of = _ref(Kind.ROUTER, body["router_id"])
        at_router = Assignment(Service.L3, report.host, of) in served
        return at_router or ports.get(body["port_id"]) == report.host

    return [report for report in present if cares(report)]


def _ref(kind: Kind, id: Any) -> Ref:
    return Ref(kind, UUID(id))
