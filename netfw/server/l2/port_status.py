"""PortStatuses: what becomes of ports by what agents report of them.

A port is ACTIVE when the host that it is bound to has wired it, and a DHCP agent that serves its
network can give it its addresses.  A status is no change of the port: it keeps its revision, and
agents are not told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, cast
from uuid import UUID

from attrs import define, evolve, field, frozen

from netfw.drivers.query import Query
from netfw.drivers.reports import Report, ReportResult, StatusReport
from netfw.drivers.subscription import Service
from netfw.model.binding import VifType
from netfw.model.common_fields import Status
from netfw.model.device_owner import is_distributed, is_trusted
from netfw.model.ids import PortId
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref
from netfw.server.agents.agents import DHCP_AGENT
from netfw.server.core.context import SERVER, ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.agents.by_host import agents_on
from netfw.server.db.resources.rows import Row
from netfw.state.dependencies import Assignment

Gate = Callable[[UnitOfWork, Collection[PortId]], Collection[PortId]]
"""Those of some ports, wired and served, that are not to be ACTIVE yet."""
Listener = Callable[[UnitOfWork, Port, Port], None]
"""Told, in the transaction, of a port before and after its status changed; called again when the
transaction is.  What is to happen after the commit goes to ``unit.afterwards``."""

_UNBOUND = (VifType.UNBOUND.value, VifType.BINDING_FAILED.value)
Known = Mapping[Ref, Sequence[StatusReport]]


@frozen
class Dhcp:
    """Who serves addresses: subnets with DHCP, and the hosts that serve each network."""

    subnets: frozenset[str]
    hosts: Mapping[UUID, frozenset[str]]
    """Those that are alive and switched on, by network."""


@define
class PortStatuses:
    """Hears what agents say of ports; a message of many reports is one transaction."""

    backbone: ServerContext
    gates: list[Gate] = field(factory=list)
    """Who else must agree before a port is ACTIVE: the outbox of drivers."""
    listeners: list[Listener] = field(factory=list)

    def __call__(self, reports: Sequence[Report]) -> ReportResult:
        """Take the reports of ports among *reports*."""
        mine = [
            report
            for report in reports
            if isinstance(report, StatusReport) and report.ref.kind is Kind.PORT
        ]
        if mine:
            self.backbone.run(SERVER, lambda unit: self.hear(unit, mine))
        return ReportResult()

    def hear(self, unit: UnitOfWork, reports: Sequence[StatusReport]) -> None:
        """Keep what counts, and set the statuses that follow."""
        rows = unit.tx.statuses.locked(Kind.PORT, (report.ref.id for report in reports))
        counted = _counting(unit, rows, reports)
        if not counted:
            return
        refs = {report.ref for report in counted}
        known = unit.tx.statuses.of(refs)
        unit.tx.statuses.keep(counted, known)
        self._settle(unit, {ref.id: rows[ref.id] for ref in refs}, _together(known, counted))

    def reconsider(self, unit: UnitOfWork, ports: Iterable[PortId]) -> int:
        """Set the statuses of *ports* by what is known: a gate opened, or a DHCP agent is gone.

        Returns how many changed.
        """
        rows = unit.tx.statuses.locked(Kind.PORT, ports)
        return self._settle(unit, rows, unit.tx.statuses.of(row.ref for row in rows.values()))

    def _settle(self, unit: UnitOfWork, rows: Mapping[UUID, Row], known: Known) -> int:
        wanted = {id: _wired(row.body, known.get(row.ref, ())) for id, row in rows.items()}
        new = {id for id, status in wanted.items() if _becomes_active(rows[id].body, status)}
        for id in new & self._waiting(unit, {id: rows[id] for id in new}, known):
            wanted[id] = Status(rows[id].body["status"])
        changed = {
            id: status for id, status in wanted.items() if status.value != rows[id].body["status"]
        }
        unit.tx.statuses.set(rows, changed)
        if self.listeners:
            for id, status in changed.items():
                self._tell(unit, cast(Port, rows[id].resource()), status)
        return len(changed)

    def _tell(self, unit: UnitOfWork, before: Port, status: Status) -> None:
        for listener in self.listeners:
            listener(unit, before, evolve(before, status=status))

    def _waiting(self, unit: UnitOfWork, rows: Mapping[UUID, Row], known: Known) -> set[UUID]:
        """Those that are wired, and yet not ready."""
        if not rows:
            return set()
        dhcp = _dhcp(unit, rows.values())
        waiting = {
            id for id, row in rows.items() if not _served(row.body, dhcp, known.get(row.ref, ()))
        }
        for gate in self.gates:
            ready = [PortId(id) for id in rows if id not in waiting]
            waiting.update(gate(unit, ready))
        return waiting


def _counting(
    unit: UnitOfWork, rows: Mapping[UUID, Row], reports: Sequence[StatusReport]
) -> list[StatusReport]:
    """Those of the present revision, from whoever has the port in its care."""
    present = [
        report
        for report in reports
        if report.ref.id in rows and rows[report.ref.id].body["revision_number"] == report.revision
    ]
    served: frozenset[Assignment] = frozenset()
    if any(report.service is Service.DHCP for report in present):
        served = unit.tx.assignments.of({_network(rows[report.ref.id]) for report in present})
    return [report for report in present if _cares(report, rows[report.ref.id], served)]


def _cares(report: StatusReport, row: Row, served: frozenset[Assignment]) -> bool:
    if report.service is Service.L2:
        return _is_distributed(row.body) or row.body["binding:host_id"] == report.host
    return Assignment(report.service, report.host, _network(row)) in served


def _together(known: Known, new: Sequence[StatusReport]) -> Known:
    """What is known after *new*."""
    newest: dict[Ref, dict[tuple[Service, str], StatusReport]] = {}
    for report in (*(each for some in known.values() for each in some), *new):
        newest.setdefault(report.ref, {})[report.service, report.host] = report
    return {ref: tuple(some.values()) for ref, some in newest.items()}


def _wired(body: Mapping[str, Any], reports: Sequence[StatusReport]) -> Status:
    """What the switch of its host makes of a port."""
    distributed = _is_distributed(body)
    if not body["admin_state_up"] or (body["binding:vif_type"] in _UNBOUND and not distributed):
        return Status.DOWN
    said = {
        report.status
        for report in reports
        if report.service is Service.L2 and (distributed or report.host == body["binding:host_id"])
    }
    for status in (Status.ACTIVE, Status.ERROR):
        if status in said:
            return status
    return Status.DOWN


def _becomes_active(body: Mapping[str, Any], status: Status) -> bool:
    return status is Status.ACTIVE and body["status"] != Status.ACTIVE.value


def _served(body: Mapping[str, Any], dhcp: Dhcp, reports: Sequence[StatusReport]) -> bool:
    """Whether a port can get its addresses, as far as anybody is there to give them."""
    hosts = dhcp.hosts.get(UUID(body["network_id"]), frozenset())
    wants = any(fixed["subnet_id"] in dhcp.subnets for fixed in body["fixed_ips"])
    if not wants or not hosts or is_trusted(body["device_owner"]):
        return True
    return any(
        report.service is Service.DHCP and report.host in hosts and report.status is Status.ACTIVE
        for report in reports
    )


def _dhcp(unit: UnitOfWork, rows: Iterable[Row]) -> Dhcp:
    """Who gives addresses on the networks of *rows*, in three statements."""
    networks = {_network(row) for row in rows}
    served = {each for each in unit.tx.assignments.of(networks) if each.service is Service.DHCP}
    if not served:
        return Dhcp(frozenset(), {})
    longest = unit.backbone.settings.agent_down_time
    heard = agents_on(unit.tx.connection, {each.host for each in served})
    alive = {
        host
        for host, agents in heard.items()
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
    return Dhcp(frozenset(str(row.body["id"]) for row in subnets), hosts)


def _network(row: Row) -> Ref:
    return Ref(Kind.NETWORK, UUID(row.body["network_id"]))


def _is_distributed(body: Mapping[str, Any]) -> bool:
    return is_distributed(body["device_owner"])
