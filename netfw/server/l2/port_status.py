"""PortStatuses: the status of ports, derived from the reports of agents.

A port is ACTIVE when the host that it is bound to has wired it, and a DHCP agent of its network
serves its addresses. Of a port on several hosts the active one decides, or any while that one is
unknown. A status is no change of the port: its revision stays, and agents receive no update.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Final, cast
from uuid import UUID

from attrs import define, evolve, field, frozen

from netfw.drivers.server.change import Change
from netfw.drivers.server.query import Query
from netfw.drivers.values.reports import Report, ReportResult, StatusReport
from netfw.drivers.values.subscription import Service
from netfw.model.binding import VifType
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref, ref
from netfw.model.values.common_fields import Status
from netfw.model.values.device_owner import is_distributed, is_trusted
from netfw.model.values.ids import PortId
from netfw.server.agents.agents import DHCP_AGENT
from netfw.server.agents.status_reasons import render_reason
from netfw.server.binding.inactive_bindings import is_wired_without_agent
from netfw.server.core.resource_handler import Reader
from netfw.server.core.server_context import SERVER, ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.assignments import AssignmentRows
from netfw.server.db.agents.heartbeats import agents_on
from netfw.server.db.agents.status_reports import StatusReports
from netfw.server.db.database import Transaction
from netfw.server.db.resources.row import Row
from netfw.state.dependencies import Assignment

Gate = Callable[[UnitOfWork, Collection[PortId]], Collection[PortId]]
"""Callback that returns which of some wired and served ports must not be ACTIVE yet."""
Listener = Callable[[UnitOfWork, Port, Port], None]
"""Callback that runs, inside the transaction, with a port before and after a change of its status,
again when the transaction is retried. Work for after the commit goes to ``unit.after_commit``."""

ReadyListener = Callable[[UnitOfWork, Port, str], None]
"""Callback that runs, inside the transaction, with a port and a host that is ready for its
activation, again with each report of the host."""

_UNBOUND = (VifType.UNBOUND.value, VifType.BINDING_FAILED.value)
Known = Mapping[Ref, Sequence[StatusReport]]


@frozen
class DhcpService:
    """DHCP service: subnets with DHCP, and the hosts that serve each network."""

    subnets: frozenset[str]
    hosts: Mapping[UUID, frozenset[str]]
    """Hosts whose agent is alive and switched on, by network."""


@define
class PortStatuses:
    """Handles status reports of ports; a message with many reports is one transaction."""

    context: ServerContext
    gates: list[Gate] = field(factory=list)
    """Callbacks that delay ACTIVE: the outbox of drivers."""
    listeners: list[Listener] = field(factory=list)
    ready_listeners: list[ReadyListener] = field(factory=list)

    def __call__(self, reports: Sequence[Report]) -> ReportResult:
        """Handle the reports of ports among *reports*."""
        mine = [
            report
            for report in reports
            if isinstance(report, StatusReport) and report.ref.kind is Kind.PORT
        ]
        if mine:
            self.context.run(SERVER, lambda unit: self.handle_reports(unit, mine))
        return ReportResult()

    def handle_reports(self, unit: UnitOfWork, reports: Sequence[StatusReport]) -> None:
        """Store the valid reports, and set the statuses that follow from them."""
        rows = unit.tx.statuses.get_for_update(Kind.PORT, (report.ref.id for report in reports))
        counted = _valid_reports(unit, rows, reports)
        if counted:
            refs = {report.ref for report in counted}
            known = unit.tx.statuses.of(refs)
            unit.tx.statuses.record(counted, known)
            self._set_statuses(unit, {ref.id: rows[ref.id] for ref in refs}, _merge(known, counted))
        for report in reports:
            row = rows.get(report.ref.id)
            if row is not None and _is_ready(report, row.body):
                for listener in self.ready_listeners:
                    listener(unit, cast(Port, row.resource()), report.host)

    def reconsider(self, unit: UnitOfWork, ports: Iterable[PortId]) -> int:
        """Recompute the statuses of *ports*, because a gate opened or a DHCP agent is gone.

        Return how many changed.
        """
        rows = unit.tx.statuses.get_for_update(Kind.PORT, ports)
        return self._set_statuses(unit, rows, unit.tx.statuses.of(row.ref for row in rows.values()))

    def watch(self, unit: UnitOfWork, change: Change) -> None:
        """Have a port that no agent reports on wired as soon as it is bound: a pre-commit hook."""
        port = change.after
        if not isinstance(port, Port) or port.status is Status.ACTIVE:
            return
        if is_wired_without_agent(unit.extra_of(port)):
            wired = StatusReport(
                ref=ref(port),
                revision=port.revision,
                host=port.binding.host,
                service=Service.L2,
                status=Status.ACTIVE,
            )
            unit.tx.statuses.record([wired], unit.tx.statuses.of([wired.ref]))
            self.reconsider(unit, [port.id])

    def _set_statuses(self, unit: UnitOfWork, rows: Mapping[UUID, Row], known: Known) -> int:
        wanted = {id: _wired_status(row, known.get(row.ref, ())) for id, row in rows.items()}
        new = {id for id, status in wanted.items() if _becomes_active(rows[id].body, status)}
        for id in new & self._not_ready(unit, {id: rows[id] for id in new}, known):
            wanted[id] = Status(rows[id].body["status"])
        changed = {
            id: status for id, status in wanted.items() if status.value != rows[id].body["status"]
        }
        unit.tx.statuses.set(rows, changed)
        if self.listeners:
            for id, status in changed.items():
                self._notify(unit, cast(Port, rows[id].resource()), status)
        return len(changed)

    def _notify(self, unit: UnitOfWork, before: Port, status: Status) -> None:
        for listener in self.listeners:
            listener(unit, before, evolve(before, status=status))

    def _not_ready(self, unit: UnitOfWork, rows: Mapping[UUID, Row], known: Known) -> set[UUID]:
        """Return the ports that are wired but not ready."""
        if not rows:
            return set()
        dhcp = _dhcp_service(unit, rows.values())
        waiting = {
            id for id, row in rows.items() if not _is_served(row.body, dhcp, known.get(row.ref, ()))
        }
        for gate in self.gates:
            ready = [PortId(id) for id in rows if id not in waiting]
            waiting.update(gate(unit, ready))
        return waiting


_ACTIVE: Final = Status.ACTIVE.value


def add_port_status_reasons(reader: Reader, bodies: Sequence[MutableMapping[str, Any]]) -> None:
    """Add to ports why they are not ACTIVE, in two statements at most if any port is not."""
    waiting = []
    for body in bodies:
        body["status_reason"] = None
        if body["status"] != _ACTIVE and _awaits_a_host(reader, body):
            waiting.append(body)
    if not waiting:
        return
    known = StatusReports(reader.connection).by_id(body["id"] for body in waiting)
    reported = [body for body in waiting if body["id"] in known]
    by_dhcp = [
        _network(body)
        for body in reported
        if any(report.service is Service.DHCP for report in known[body["id"]])
    ]
    served = AssignmentRows(reader.connection).of(set(by_dhcp)) if by_dhcp else frozenset()
    for body in reported:
        body["status_reason"] = render_reason(
            report for report in known[body["id"]] if _decides(report, body, served)
        )


def _awaits_a_host(reader: Reader, body: Mapping[str, Any]) -> bool:
    """Return whether hosts may have reported why a port is not ACTIVE: of a new one, none has."""
    if not (_is_bound(body) or _is_distributed(body)):
        return False
    return body["revision_number"] != 1 or not isinstance(reader, Transaction)


def _decides(report: StatusReport, body: Mapping[str, Any], served: frozenset[Assignment]) -> bool:
    """Return whether the status of a port depends on the host of a report."""
    if report.service is Service.L2:
        return _is_distributed(body) or report.host in _deciding_hosts(body)
    return Assignment(report.service, report.host, _network(body)) in served


def _valid_reports(
    unit: UnitOfWork, rows: Mapping[UUID, Row], reports: Sequence[StatusReport]
) -> list[StatusReport]:
    """Return the reports of the present revision, from hosts that are responsible for the port."""
    present = [
        report
        for report in reports
        if report.ref.id in rows and rows[report.ref.id].body["revision_number"] == report.revision
    ]
    served: frozenset[Assignment] = frozenset()
    if any(report.service is Service.DHCP for report in present):
        served = unit.tx.assignments.of({_network(rows[report.ref.id].body) for report in present})
    return [report for report in present if _is_responsible(report, rows[report.ref.id], served)]


def _is_responsible(report: StatusReport, row: Row, served: frozenset[Assignment]) -> bool:
    if report.service is Service.L2:
        is_on_host = _is_distributed(row.body) or report.host in _hosts(row.body)
        return is_on_host and not is_wired_without_agent(row.extra)
    return Assignment(report.service, report.host, _network(row.body)) in served


def _is_ready(report: StatusReport, body: Mapping[str, Any]) -> bool:
    """Return whether a report says that its host is ready for the activation of a port."""
    is_present = report.revision == body["revision_number"]
    is_prepared = report.host in body.get("binding:prepared_hosts", ())
    is_wired = report.service is Service.L2 and report.status is Status.ACTIVE
    return is_present and is_wired and is_prepared and report.host not in _hosts(body)


def _merge(known: Known, new: Sequence[StatusReport]) -> Known:
    """Return *known* updated with *new*."""
    newest: dict[Ref, dict[tuple[Service, str], StatusReport]] = {}
    for report in (*(each for some in known.values() for each in some), *new):
        newest.setdefault(report.ref, {})[report.service, report.host] = report
    return {ref: tuple(some.values()) for ref, some in newest.items()}


def _wired_status(row: Row, reports: Sequence[StatusReport]) -> Status:
    """Return the status of a port according to the switches of its hosts."""
    body = row.body
    distributed = _is_distributed(body)
    if not body["admin_state_up"] or not (distributed or _is_bound(body)):
        return Status.DOWN
    if is_wired_without_agent(row.extra):
        return Status.ACTIVE
    deciding = _deciding_hosts(body)
    reported = {
        report.status
        for report in reports
        if report.service is Service.L2 and (distributed or report.host in deciding)
    }
    for status in (Status.ACTIVE, Status.ERROR):
        if status in reported:
            return status
    return Status.DOWN


def _hosts(body: Mapping[str, Any]) -> frozenset[str]:
    """Return the hosts that wire a port."""
    return frozenset({body["binding:host_id"], *body.get("binding:hosts", ())}) - {""}


def _deciding_hosts(body: Mapping[str, Any]) -> frozenset[str]:
    """Return the hosts that decide the status of a port.

    Of a port on several hosts it is the active one, so that a standby does not take the port down;
    any of them while that one is unknown.
    """
    return frozenset({body["binding:host_id"]}) - {""} or _hosts(body)


def _is_bound(body: Mapping[str, Any]) -> bool:
    """Return whether hosts wire the port; those of a port on several hosts do it in any case."""
    return bool(body.get("binding:hosts")) or body["binding:vif_type"] not in _UNBOUND


def _becomes_active(body: Mapping[str, Any], status: Status) -> bool:
    return status is Status.ACTIVE and body["status"] != Status.ACTIVE.value


def _is_served(body: Mapping[str, Any], dhcp: DhcpService, reports: Sequence[StatusReport]) -> bool:
    """Return whether DHCP serves the port, or no live agent could."""
    hosts = dhcp.hosts.get(UUID(body["network_id"]), frozenset())
    wants = any(fixed["subnet_id"] in dhcp.subnets for fixed in body["fixed_ips"])
    if not wants or not hosts or is_trusted(body["device_owner"]):
        return True
    return any(
        report.service is Service.DHCP and report.host in hosts and report.status is Status.ACTIVE
        for report in reports
    )


def _dhcp_service(unit: UnitOfWork, rows: Iterable[Row]) -> DhcpService:
    """Return the DHCP service of the networks of *rows*, in three statements."""
    networks = {_network(row.body) for row in rows}
    served = {each for each in unit.tx.assignments.of(networks) if each.service is Service.DHCP}
    if not served:
        return DhcpService(frozenset(), {})
    longest = unit.context.settings.agent_down_time
    agents_by_host = agents_on(unit.tx.connection, {each.host for each in served})
    alive = {
        host
        for host, agents in agents_by_host.items()
        for each in agents
        if each.agent.agent_type == DHCP_AGENT
        and each.agent.admin_up
        and each.silence is not None
        and each.silence <= longest
    }
    ids = tuple(sorted(str(each.id) for each in networks))
    query = Query(filters={"network_id": ids, "enable_dhcp": (True,)})
    subnets = unit.tx.resources.find(Kind.SUBNET, query)
    hosts = {
        ref.id: frozenset(each.host for each in served if each.ref == ref and each.host in alive)
        for ref in networks
    }
    return DhcpService(frozenset(str(row.body["id"]) for row in subnets), hosts)


def _network(body: Mapping[str, Any]) -> Ref:
    return Ref(Kind.NETWORK, UUID(body["network_id"]))


def _is_distributed(body: Mapping[str, Any]) -> bool:
    return is_distributed(body["device_owner"])
