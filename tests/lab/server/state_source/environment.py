"""The backend of the source of the server, for the suite of state sources.

The suite refers to what is not there, and has ports of one MAC and address; a server would refuse
that long before.  So the database here checks no references, and each port, floating IP and agent
is given what is unique by its id.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from attrs import evolve
from sqlalchemy import delete, event, select

from netfw.drivers.server.query import Query
from netfw.drivers.values.agent_requests import EnabledServices, EnsureDhcpPort, FindPorts, Request
from netfw.drivers.values.reports import Report, ReportResult, RoleReport, StatusReport
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import Conflict, NotSupported
from netfw.model import Agent, FloatingIp, Mac, Network, Port
from netfw.model.resource import Kind, Ref, Resource, ref
from netfw.model.router import HaRole
from netfw.model.values.common_fields import Status
from netfw.server.db import Database, Transaction
from netfw.server.db.engine.errors import RetryTransaction
from netfw.server.db.journal.journal import Retention
from netfw.server.db.schema.resource_tables import STORED
from netfw.server.db.schema.tables import ASSIGNMENTS
from netfw.state.agent_requests import dhcp_port, find_ports
from netfw.state.dependencies import Assignment, Item, reachable

ABSENT = frozenset(Kind) - STORED.keys()

_UNCHECKED = {
    "sqlite": "PRAGMA foreign_keys = OFF",
    "postgresql": "SET session_replication_role = replica",
    "mysql": "SET SESSION foreign_key_checks = 0",
    "mariadb": "SET SESSION foreign_key_checks = 0",
}


class DatabaseBackend:
    """Writer to the database, and recorder of reports."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._statuses: dict[tuple[Ref, Service], Status] = {}
        self._roles: dict[tuple[Ref, str], HaRole] = {}
        self._patient = database.writing.dialect.name == "sqlite"
        event.listen(database.writing, "connect", _unchecked(database.writing.dialect.name))

    def commit(self, put: Sequence[Item] = (), remove: Sequence[Ref | Assignment] = ()) -> None:
        self.database.transaction(lambda tx: self._change(tx, put, remove))

    def begin(self, put: Sequence[Item] = ()) -> Callable[[], None]:
        """Begin a change in a thread, and return a function that ends it, or in SQLite makes it."""
        if self._patient:
            return lambda: self.commit(put)
        written, finish = threading.Event(), threading.Event()

        def work(tx: Transaction) -> None:
            self._change(tx, put, ())
            written.set()
            finish.wait(60)

        thread = threading.Thread(target=lambda: self.database.transaction(work))
        thread.start()
        assert written.wait(60), "the slow change was not even begun"

        def end() -> None:
            finish.set()
            thread.join()

        return end

    def items(self) -> Sequence[Item]:
        return self.database.transaction(lambda tx: (*_resources(tx), *_assignments(tx)))

    def forget_history(self) -> None:
        self.database.transaction(_forget)

    def restore(self, items: Sequence[Item]) -> None:
        def replace(tx: Transaction) -> None:
            keys = [item if isinstance(item, Assignment) else ref(item) for item in self_items(tx)]
            self._change(tx, (), keys)
            self._change(tx, items, ())
            tx.journal.start_epoch()

        def self_items(tx: Transaction) -> list[Item]:
            return [*_resources(tx), *_assignments(tx)]

        self.database.transaction(replace)
        self._statuses.clear()

    def status(self, target: Ref, service: Service) -> Status | None:
        return self._statuses.get((target, service))

    def roles(self, router: Ref) -> Mapping[str, HaRole]:
        serving = {each.host for each in self.items() if isinstance(each, Assignment)}
        return {
            host: role
            for (target, host), role in self._roles.items()
            if target == router and host in serving
        }

    def handle_reports(self, reports: Sequence[Report]) -> ReportResult:
        """Record statuses and roles in place of the server's handlers."""
        for report in reports:
            if isinstance(report, RoleReport):
                self._roles[report.ref, report.host] = report.role
            if isinstance(report, StatusReport) and _counts(report, self.items()):
                self._statuses[report.ref, report.service] = report.status
        return ReportResult()

    def handle_request(self, request: Request[Any]) -> Any:
        """Answer in place of the plugins."""
        resources = [each for each in self.items() if not isinstance(each, Assignment)]
        match request:
            case EnabledServices():
                return frozenset({"router"})
            case FindPorts():
                return find_ports(request, resources)
            case EnsureDhcpPort():
                port = _unique(dhcp_port(request, resources))
            case _:
                raise NotSupported(f"no handler answers {type(request).__name__}")
        self.commit((port,))
        return self.database.transaction(lambda tx: _stored(tx, ref(port)))

    def _change(
        self, tx: Transaction, put: Sequence[Item], remove: Sequence[Ref | Assignment]
    ) -> None:
        for key in remove:
            if isinstance(key, Assignment):
                tx.assignments.remove(key)
            elif key.kind not in ABSENT and (old := _stored(tx, key)) is not None:
                tx.resources.delete(old)
                for relation in STORED[key.kind].relations:
                    owner = relation.table.c[relation.owner]
                    tx.connection.execute(delete(relation.table).where(owner == str(key.id)))
        for item in put:
            if isinstance(item, Assignment):
                tx.assignments.add(item)
            elif ref(item).kind not in ABSENT:
                _put(tx, _unique(item))


def bare(resource: Resource) -> Resource:
    """Return a resource as agents get it: a network does not list its subnets."""
    return evolve(resource, subnet_ids=()) if isinstance(resource, Network) else resource


def _put(tx: Transaction, new: Resource) -> None:
    old = _stored(tx, ref(new))
    if old is None:
        try:
            tx.resources.insert(new)
        except Conflict as exc:
            raise RetryTransaction("another thread put the same") from exc
    elif evolve(new, revision=old.revision) != old:
        tx.resources.update(old, new)


def _stored(tx: Transaction, key: Ref) -> Resource | None:
    return next((bare(row.resource()) for row in tx.resources.present([key])), None)


def _unique(item: Resource) -> Resource:
    number = item.id.int % 200
    if isinstance(item, Port):
        fixed = [
            evolve(ip, address=ip.address - int(ip.address) % 256 + number) for ip in item.fixed_ips
        ]
        return evolve(item, mac=Mac(f"fa:16:3e:00:00:{number:02x}"), fixed_ips=tuple(fixed))
    if isinstance(item, FloatingIp):
        return evolve(item, address=item.address - int(item.address) % 256 + number)
    if isinstance(item, Agent):
        return evolve(item, agent_type=f"agent {number}")
    return item


def _resources(tx: Transaction) -> Iterator[Resource]:
    for kind in STORED:
        for row in tx.resources.find(kind, Query()):
            yield bare(row.resource())


def _assignments(tx: Transaction) -> frozenset[Assignment]:
    rows = tx.connection.execute(select(ASSIGNMENTS.c.kind, ASSIGNMENTS.c.resource_id))
    return tx.assignments.of([Ref(Kind(kind), UUID(id)) for kind, id in rows])


def _forget(tx: Transaction) -> None:
    while tx.journal.prune(Retention(commits=0, age=-10.0)):
        pass


def _counts(report: StatusReport, items: Sequence[Item]) -> bool:
    """Return whether the host of *report* serves its resource, at this revision."""
    here = reachable(items, Subscription(report.host, {report.service}))
    found = here.get(report.ref)
    if found is None or found.revision != report.revision:
        return False
    return not isinstance(found, Port) or found.binding.is_on(report.host)


def _unchecked(dialect: str) -> Callable[[Any, Any], None]:
    def connected(connection: Any, _: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(_UNCHECKED[dialect])
        cursor.close()
        connection.commit()

    return connected
