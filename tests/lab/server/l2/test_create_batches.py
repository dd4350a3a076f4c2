"""Ports of several requests in one transaction: each request has its own outcome."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from netfw import tracing
from netfw.cli.runtime.otel import OtelTracer
from netfw.drivers.server.change import Change
from netfw.drivers.server.query import RequestContext
from netfw.errors import BackendUnavailable, NotFound, OverQuota
from netfw.model.port import Port
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db import Database
from tests.server.core.core_client import Calls, core_plugin
from tests.unit.cli.runtime.otlp_receiver import otlp_receiver

LIMIT = 60.0
"""Seconds that a busy machine may need."""
Body = dict[str, Any]


class Site:
    """A network whose first port is held before its commit, until others wait for it."""

    def __init__(self, database: Database, quotas: dict[str, int] | None = None) -> None:
        self.database = database
        self.plugin = core_plugin(database, quotas=quotas)
        self.calls = Calls(self.plugin)
        self.network = self.calls.network()
        self.calls.subnet(self.network, "10.0.0.0/24")
        self.changes: list[Change] = []
        self.held, self.release = threading.Event(), threading.Event()
        self.plugin.context.precommit_hooks.append(self._hold)

    def _hold(self, _: UnitOfWork, change: Change) -> None:
        if change.before is None and isinstance(change.after, Port):
            self.changes.append(change)
            self.held.set()
            assert self.release.wait(LIMIT)

    def port(self, request: str, body: Body) -> Body:
        who = RequestContext(project_id="alice", request_id=request)
        full = {"project_id": "alice", "network_id": self.network["id"], **body}
        return dict(self.plugin.create(who, "port", [full])[0])

    def create(self, bodies: Sequence[Body]) -> list[Future[Body]]:
        """Create the first port, and the others while it runs; return all when they ended."""
        with ThreadPoolExecutor(len(bodies)) as pool:
            results = [pool.submit(self.port, "req-0", bodies[0])]
            assert self.held.wait(LIMIT)
            results += [
                pool.submit(self.port, f"req-{at}", body) for at, body in enumerate(bodies[1:], 1)
            ]
            wait_for(lambda: self.plugin.batches.waiting() == len(bodies) - 1)
            self.release.set()
        return results

    def commits(self) -> int:
        return self.database.read(lambda view: view.journal.cursor()).seq


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


def addresses(ports: Sequence[Body]) -> set[str]:
    return {port["fixed_ips"][0]["ip_address"] for port in ports}


def test_ports_that_wait_for_another_are_one_commit(database: Database) -> None:
    site = Site(database)
    before = site.commits()
    ports = [each.result() for each in site.create([{"name": f"p{at}"} for at in range(7)])]
    assert site.commits() == before + 2
    assert [port["name"] for port in ports] == [f"p{at}" for at in range(7)]
    assert len(addresses(ports)) == 7
    stored = {port["id"]: port for port in site.calls.all("port")}
    assert all(stored[port["id"]] == port for port in ports)


def test_each_change_has_the_id_of_its_own_request(database: Database) -> None:
    site = Site(database)
    ports = [each.result() for each in site.create([{"name": f"p{at}"} for at in range(5)])]
    requests = {change.ref.id: change.request_id for change in site.changes}
    assert [requests[UUID(port["id"])] for port in ports] == [f"req-{at}" for at in range(5)]


class TracedSite(Site):
    """A site whose requests are traced, each in a trace of its own."""

    def port(self, request: str, body: Body) -> Body:
        number = int(request.removeprefix("req-")) + 1
        with tracing.span("POST /v2.0/ports", [f"00-{number:032x}-{number:016x}-01"]):
            return super().port(request, body)


@pytest.mark.spec("DRV-43")
def test_commit_of_several_requests_is_of_all_their_traces(
    database: Database, tmp_path: Path
) -> None:
    with otlp_receiver(tmp_path / "spans") as receiver:
        tracer = OtelTracer(receiver.url, 1.0, program="netfw-server", host="host1")
        with tracing.tracing(tracer):
            site = TracedSite(database)
            for each in site.create([{}] * 5):
                each.result()
            with tracing.span("a transaction that changes nothing"):
                database.transaction(lambda transaction: None)
        tracer.close()
        assert database.traces.of([0]) == ()
        newest = site.commits()
        found = [database.traces.of([commit]) for commit in (newest - 1, newest)]
        traces = [sorted(int(each.split("-")[1], 16) for each in commit) for commit in found]
        assert traces == [[1], [2, 3, 4, 5]]
        spans = [each.attributes for each in receiver.spans("transaction")]
        commits = {each["netfw.commit"] for each in spans if "netfw.commit" in each}
        assert commits == {newest - 1, newest}


def test_refused_request_is_refused_alone(database: Database) -> None:
    site = Site(database)
    results = site.create([{}, {}, {"network_id": str(uuid4())}, {}])
    with pytest.raises(NotFound):
        results.pop(2).result()
    assert len(addresses([each.result() for each in results])) == 3
    assert len(site.calls.all("port")) == 3


def test_quota_has_room_for_some_of_the_waiting(database: Database) -> None:
    site = Site(database, quotas={"port": 4})
    results = site.create([{}] * 7)
    errors = [each.exception() for each in results]
    assert sum(error is None for error in errors) == len(site.calls.all("port")) == 4
    assert all(isinstance(error, OverQuota) for error in errors if error is not None)


def test_batch_that_is_perhaps_committed_is_not_repeated(database: Database) -> None:
    site = Site(database)
    began: list[UnitOfWork] = []

    def lose(unit: UnitOfWork, change: Change) -> None:
        if unit.batch_request_ids and isinstance(change.after, Port):
            began.append(unit)
            raise BackendUnavailable("the database went away during a commit")

    site.plugin.context.precommit_hooks.append(lose)
    results = site.create([{}] * 4)
    results[0].result()
    for each in results[1:]:
        with pytest.raises(BackendUnavailable):
            each.result()
    assert len(began) == 1
    assert len(site.calls.all("port")) == 1
