"""Transactions that stop on the way, so that others meet them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID

import pytest
from sqlalchemy import select

from netfw.drivers.server.change import Change
from netfw.model.resource import Kind, Ref
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db import Database
from netfw.server.db.schema.resource_tables import STORED
from netfw.server.scheduling.assignments import AgentAssignments
from netfw.testing.lab.wait import wait_until
from netfw_drivers.ovs.mechanism.driver import OvsMechanismDriver
from tests.lab.server.l3.environment import ADMIN, Layer3
from tests.lab.server.l3.processes import forward
from tests.server.core.agent_samples import beat

L3_AGENT = "L3 agent"
COUNT_WAITING = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
    "mariadb": "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
}
FRESH = 0.15
"""Seconds between two counts: MariaDB counts anew only after 0.1 s without a question."""


class Meeting:
    """A router with two inside ports and a floating IP, and transactions that stop on the way."""

    def __init__(self, database: Database, pool: ThreadPoolExecutor, **router: Any) -> None:
        self.database, self._pool = database, pool
        self.core = Layer3(database, mechanisms=(OvsMechanismDriver(),))
        self.core.core.agent_services.agents([beat("a", L3_AGENT)])
        outside, _ = self.core.outside()
        network, self.subnet = self.core.inside()
        body = {"project_id": "anna", "external_gateway_info": {"network_id": outside}, **router}
        self.router = self.core.router(ADMIN, **body)
        self.core.connect(self.router, subnet_id=self.subnet)
        self.port, self.other = (self.core.port(network)["id"] for _ in range(2))
        self.floating = self.core.create("floatingip", floating_network_id=outside)["id"]

    def forward(self, port: str, number: int) -> None:
        forward(self.core, self.floating, port, number)

    def reassign(self) -> None:
        target = Ref(Kind.ROUTER, UUID(self.router))
        assignments = AgentAssignments(L3_AGENT, self.core.context.settings)

        def move(unit: UnitOfWork) -> None:
            unit.tx.resources.get(Kind.ROUTER, target.id, lock=True)
            assignments.unassign(unit, target)
            assignments.assign(unit, target, "a")

        self.core.context.run(ADMIN, move)

    def start(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Start *work* in a thread, and wait until it waits for a lock."""
        time.sleep(FRESH)  # the last count may be of another test
        waiting = self.count_waiting()
        running = self._pool.submit(work, *arguments)
        wait_until(lambda: running.done() or self.count_waiting() > waiting, pause=FRESH)
        return running

    def count_waiting(self) -> int:
        with self.database.reading.connect() as connection:
            query = COUNT_WAITING[connection.dialect.name]
            return int(connection.exec_driver_sql(query).scalar_one())

    @contextmanager
    def stopped(self, work: Callable[..., Any], *arguments: Any) -> Iterator[Future[Any]]:
        """Run *work* until its hooks begin; it goes on at the end."""
        arrived, go = threading.Event(), threading.Event()
        mine: set[int] = set()

        def stop(unit: UnitOfWork, change: Change) -> None:
            if threading.get_ident() in mine:
                arrived.set()
                assert go.wait(60)

        def run() -> Any:
            mine.add(threading.get_ident())
            try:
                return work(*arguments)
            finally:
                mine.clear()

        self.core.context.precommit_hooks.insert(0, stop)
        running = self._pool.submit(run)
        try:
            wait_until(lambda: running.done() or arrived.is_set())
            yield running
        finally:
            go.set()

    @contextmanager
    def locked(self, kind: Kind, id: str) -> Iterator[None]:
        table = STORED[kind].table
        with self.database.writing.connect() as connection:
            row = select(table.c.id).where(table.c.id == id).with_for_update()
            connection.execute(row).one()
            yield


M = TypeVar("M", bound=Meeting)


@contextmanager
def meeting_at(make: Callable[[Database, ThreadPoolExecutor], M], url: str) -> Iterator[M]:
    """Make a meeting on the database."""
    database = Database(url)
    try:
        with ThreadPoolExecutor(4) as pool:
            yield make(database, pool)
    finally:
        database.close()


@contextmanager
def no_retries(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Check that no transaction of a test is retried because of a deadlock."""
    with caplog.at_level(logging.DEBUG, "netfw.server.db.database"):
        yield
    assert not [each for each in caplog.get_records("call") if "retrying" in each.getMessage()]
