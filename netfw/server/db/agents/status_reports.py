"""Status reports of hosts on resources, and the statuses of the resources.

A status is no change of a resource: its revision stays, and the journal has no entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, bindparam, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service
from netfw.model.resource import Kind, Ref
from netfw.model.values.common_fields import Status
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.engine.prepared import Prepared
from netfw.server.db.resources.row import Row
from netfw.server.db.resources.rows import AT_ONCE
from netfw.server.db.schema.columns import storable
from netfw.server.db.schema.port_tables import PORTS
from netfw.server.db.schema.resource_tables import table_mapping
from netfw.server.db.schema.tables import STATUS_REPORTS

REASON_LENGTH = 1000

_SAME: Final = (
    STATUS_REPORTS.c.resource_id == bindparam("of_resource"),
    STATUS_REPORTS.c.service == bindparam("of_service"),
    STATUS_REPORTS.c.host == bindparam("of_host"),
)
OF_RESOURCES: Final = Prepared(
    select(STATUS_REPORTS).where(
        STATUS_REPORTS.c.resource_id.in_(bindparam("ids", expanding=True))
    ),
    padded=True,
)
UPDATE_REPORT: Final = (
    update(STATUS_REPORTS)
    .where(*_SAME)
    .values(
        revision=bindparam("new_revision"),
        status=bindparam("new_status"),
        reason=bindparam("new_reason"),
    )
)
INSERT_REPORT: Final = insert(STATUS_REPORTS)
DELETE_REPORT: Final = delete(STATUS_REPORTS).where(*_SAME)
DELETE_REPORTS: Final = delete(STATUS_REPORTS).where(
    STATUS_REPORTS.c.resource_id.in_(bindparam("ids", expanding=True))
)
DELETE_SERVICE_REPORTS: Final = DELETE_REPORTS.where(
    STATUS_REPORTS.c.service == bindparam("of_service")
)

WIRED: Final = (
    select(PORTS.c.network_id, PORTS.c.id)
    .distinct()
    .join(STATUS_REPORTS, STATUS_REPORTS.c.resource_id == PORTS.c.id)
    .where(
        PORTS.c.network_id.in_(bindparam("ids", expanding=True)),
        PORTS.c.status != Status.ACTIVE.value,
        STATUS_REPORTS.c.service == Service.L2.value,
        STATUS_REPORTS.c.status == Status.ACTIVE.value,
    )
)


def waiting_ports(connection: Connection, networks: Iterable[UUID]) -> Mapping[UUID, Set[UUID]]:
    """Return the ports that are wired and not ACTIVE, by networks that have any."""
    found: dict[UUID, set[UUID]] = {}
    for part in _parts(sorted(map(str, set(networks)))):
        for network, port in connection.execute(WIRED, {"ids": part}):
            found.setdefault(UUID(network), set()).add(UUID(port))
    return found


class StatusReports:
    """Status reports and statuses, in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get_for_update(self, kind: Kind, ids: Iterable[UUID]) -> dict[UUID, Row]:
        """Return those of *ids* that exist, locked, so that their statuses can be set."""
        table = table_mapping(kind).table
        rows = select(table.c.id, table.c.body, table.c.extra).order_by(table.c.id)
        found: dict[UUID, Row] = {}
        for part in _parts(sorted(map(str, set(ids)))):
            chosen = rows.where(table.c.id.in_(part)).with_for_update()
            for row in self._connection.execute(chosen):
                extra = json.loads(row.extra)
                found[UUID(row.id)] = Row(kind=kind, body=json.loads(row.body), extra=extra)
        return found

    def of(self, refs: Iterable[Ref]) -> dict[Ref, tuple[StatusReport, ...]]:
        """Return the last reports on *refs*, of each service of each host."""
        found = self.by_id({str(each.id) for each in refs})
        return {reports[0].ref: reports for reports in found.values()}

    def by_id(self, ids: Iterable[str]) -> dict[str, tuple[StatusReport, ...]]:
        """Return the last reports on the resources of *ids*, of each service of each host."""
        found: dict[str, tuple[StatusReport, ...]] = {}
        for part in _parts(sorted(ids)):
            for row in OF_RESOURCES.all(self._connection, {"ids": list(part)}):
                found[row.resource_id] = (*found.get(row.resource_id, ()), _report(row))
        return found

    def record(
        self, new: Sequence[StatusReport], known: Mapping[Ref, Sequence[StatusReport]]
    ) -> int:
        """Upsert reports; skip those equal to *known*, which has all earlier ones.

        Return the number of rows written.
        """
        stored = {_key(report): report for reports in known.values() for report in reports}
        newest = {_key(report): report for report in new}
        updates = [
            _values("new_", report) | _where(report)
            for key, report in newest.items()
            if key in stored and not _equal(stored[key], report)
        ]
        inserts = [_row(report) for key, report in newest.items() if key not in stored]
        if updates:
            self._connection.execute(UPDATE_REPORT, updates)
        if inserts:
            try:
                self._connection.execute(INSERT_REPORT, inserts)
            except IntegrityError as exc:
                raise RetryTransaction("another transaction recorded the same report") from exc
        return len(updates) + len(inserts)

    def delete(self, refs: Iterable[Ref], service: Service | None = None) -> None:
        """Delete the reports on resources that were deleted or moved to another host."""
        for part in _parts(sorted({str(each.id) for each in refs})):
            if service is None:
                self._connection.execute(DELETE_REPORTS, {"ids": part})
            else:
                self._connection.execute(
                    DELETE_SERVICE_REPORTS, {"ids": part, "of_service": service.value}
                )

    def delete_reports(self, reports: Sequence[StatusReport]) -> None:
        """Delete *reports*, because their hosts are responsible no more."""
        if reports:
            self._connection.execute(DELETE_REPORT, [_where(report) for report in reports])

    def set(self, rows: Mapping[UUID, Row], statuses: Mapping[UUID, Status]) -> None:
        """Update statuses of resources of one kind, which this transaction locked as *rows*."""
        if not statuses:
            return
        kind = next(iter(rows.values())).kind
        table = table_mapping(kind).table
        change = (
            update(table)
            .where(table.c.id == bindparam("of_id"))
            .values(status=bindparam("new_status"), body=bindparam("new_body"))
        )
        values = [
            {
                "of_id": str(id),
                "new_status": status.value,
                "new_body": _text({**rows[id].body, "status": status.value}),
            }
            for id, status in statuses.items()
        ]
        self._connection.execute(change, values)


def _key(report: StatusReport) -> tuple[Ref, Service, str]:
    return report.ref, report.service, report.host


def _equal(one: StatusReport, two: StatusReport) -> bool:
    """Return whether status and reason are equal, whatever the revisions are."""
    return one.status is two.status and one.reason == storable(two.reason, REASON_LENGTH)


def _where(report: StatusReport) -> dict[str, Any]:
    return {
        "of_resource": str(report.ref.id),
        "of_service": report.service.value,
        "of_host": report.host,
    }


def _values(prefix: str, report: StatusReport) -> dict[str, Any]:
    return {
        f"{prefix}revision": report.revision,
        f"{prefix}status": report.status.value,
        f"{prefix}reason": storable(report.reason, REASON_LENGTH),
    }


def _row(report: StatusReport) -> dict[str, Any]:
    return {
        "resource_id": str(report.ref.id),
        "service": report.service.value,
        "host": report.host,
        "kind": report.ref.kind.value,
        **_values("", report),
    }


def _report(row: Any) -> StatusReport:
    return StatusReport(
        ref=Ref(Kind(row.kind), UUID(row.resource_id)),
        revision=row.revision,
        host=row.host,
        service=Service(row.service),
        status=Status(row.status),
        reason=row.reason,
    )


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)


def _parts(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[at : at + AT_ONCE] for at in range(0, len(ids), AT_ONCE))
