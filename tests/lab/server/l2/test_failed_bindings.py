"""Failed bindings: retried until they are bound, whatever the retry at a heartbeat missed."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import event

from netfw.drivers.server.change import Change
from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service
from netfw.errors import Conflict
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref
from netfw.model.values.common_fields import Status
from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.binding import failed_bindings
from netfw.server.core.server_context import ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db import Database
from netfw_drivers.ovs.mechanism.driver import OvsMechanismDriver
from tests.lab.databases import SERVER_PARAMETERS, DatabaseServers
from tests.server.core.agent_samples import beat, grow_old
from tests.server.core.core_client import ADMIN, Calls, core_plugin, statements

pytestmark = pytest.mark.spec("ML2-04")
DEAD = 1000
"""Seconds after which an agent is dead."""


class Server:
    def __init__(self, database: Database) -> None:
        plugin = core_plugin(database, mechanisms=(OvsMechanismDriver(),))
        self.context: ServerContext = plugin.context
        self.calls = Calls(plugin)
        self.network = self.calls.network(ADMIN)["id"]
        self.send_heartbeat()

    def send_heartbeat(self, host: str = "h1") -> None:
        HeartbeatHandler(self.context)([beat(host, tunnel_types=["vxlan"], bridge_mappings={})])

    def reconcile(self) -> None:
        for each in self.context.reconcilers:
            each()

    def port(self, host: str = "h1") -> dict[str, Any]:
        return self.calls.make("port", ADMIN, network_id=self.network, binding__host_id=host)

    def vif_type(self, port: dict[str, Any]) -> object:
        return self.calls.show("port", port["id"], ADMIN)["binding:vif_type"]


@pytest.mark.parametrize("backend", SERVER_PARAMETERS)
def test_port_that_is_committed_while_its_agent_comes_back_is_bound(
    database_servers: DatabaseServers, backend: str
) -> None:
    # The heartbeat cannot see the port, and the port has read that the agent is dead.
    with closing(Database(database_servers.filled(backend))) as database:
        check_port_of_an_agent_that_comes_back(Server(database))


def check_port_of_an_agent_that_comes_back(server: Server) -> None:
    grow_old(server.context, "h1", DEAD)

    def come_back(unit: UnitOfWork, change: Change) -> None:
        if change.before is None and isinstance(change.after, Port):
            with ThreadPoolExecutor(1) as other:
                other.submit(server.send_heartbeat).result()

    server.context.precommit_hooks.append(come_back)
    made = server.port()
    assert made["binding:vif_type"] == "binding_failed"
    assert server.vif_type(made) == "ovs"


def test_port_that_failed_while_the_clock_was_wrong_is_bound_when_it_is_right(
    database: Database,
) -> None:
    server = Server(database)
    grow_old(server.context, "h1", DEAD)
    port = server.port()
    grow_old(server.context, "h1", -DEAD)
    server.send_heartbeat()
    assert server.vif_type(port) == "binding_failed", "the heartbeat is like the one before"
    server.reconcile()
    assert server.vif_type(port) == "ovs"


def test_server_that_starts_retries_what_failed_before(database: Database) -> None:
    former = Server(database)
    grow_old(former.context, "h1", DEAD)
    port = former.port()
    grow_old(former.context, "h1", -DEAD)
    present = core_plugin(database, mechanisms=(OvsMechanismDriver(),))
    for each in present.context.reconcilers:
        each()
    assert former.vif_type(port) == "ovs"


def test_port_that_is_refused_keeps_no_other_host_from_its_retry(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed_bindings, "FIRST_PAUSE", 0.0)
    server = Server(database)
    server.send_heartbeat("h2")
    server.reconcile()
    for host in ("h1", "h2"):
        grow_old(server.context, host, DEAD)
    first, second = server.port(), server.port("h2")
    for host in ("h1", "h2"):
        grow_old(server.context, host, -DEAD)

    def refuse(unit: UnitOfWork, change: Change) -> None:
        if isinstance(change.after, Port) and change.after.binding.host == "h1":
            raise Conflict("not now")

    server.context.precommit_hooks.append(refuse)
    server.reconcile()
    assert (server.vif_type(first), server.vif_type(second)) == ("binding_failed", "ovs")
    server.context.precommit_hooks.remove(refuse)
    server.reconcile()
    assert server.vif_type(first) == "ovs"


def test_port_that_no_driver_binds_is_retried_after_a_pause(
    file_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(file_database)
    server.reconcile()
    flat = {"provider__network_type": "flat", "provider__physical_network": "physnet1"}
    network = server.calls.network(ADMIN, **flat)["id"]
    with statements(file_database) as seen:
        port = server.calls.make("port", ADMIN, network_id=network, binding__host_id="h1")
    assert server.vif_type(port) == "binding_failed"
    assert any("WHERE ports.binding_vif_type" in each for each in seen), "it was retried"

    def is_retried() -> bool:
        with statements(file_database) as seen:
            server.reconcile()
        return any("WHERE ports.binding_vif_type" in each for each in seen)

    assert not is_retried()
    now = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + 31)
    assert is_retried()
    assert not is_retried()


def test_bulk_of_ports_that_fail_checks_their_host_once(file_database: Database) -> None:
    server = Server(file_database)
    grow_old(server.context, "h1", DEAD)
    body = {"network_id": server.network, "binding:host_id": "h1", "project_id": "alice"}
    counts = []
    for number in (2, 20):
        with statements(file_database) as seen:
            server.calls.plugin.create(ADMIN, "port", [dict(body) for _ in range(number)])
        counts.append(sum("heartbeats" in each for each in seen))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("backend", SERVER_PARAMETERS)
def test_port_that_another_server_binds_meanwhile_keeps_its_reports(
    database_servers: DatabaseServers, backend: str
) -> None:
    # Both have found the port; the other one binds it, and its host reports, before the lock.
    with closing(Database(database_servers.filled(backend))) as database:
        server = Server(database)
        grow_old(server.context, "h1", DEAD)
        port = server.port()
        report = StatusReport(
            ref=Ref(Kind.PORT, UUID(port["id"])),
            revision=2,
            host="h1",
            service=Service.L2,
            status=Status.ACTIVE,
        )
        overtaking: list[Callable[[], object]] = [
            lambda: HeartbeatHandler(server.context)(
                [beat("h1", start=True, tunnel_types=["vxlan"])]
            ),
            lambda: database.transaction(lambda tx: tx.statuses.record([report], {})),
        ]

        def overtake(_conn: Any, _cursor: Any, text: str, *_: Any) -> None:
            if "FROM ports" in text and "FOR UPDATE" in text:
                others, overtaking[:] = tuple(overtaking), ()
                with ThreadPoolExecutor(1) as other:
                    for each in others:
                        other.submit(each).result(60)

        grow_old(server.context, "h1", -DEAD)
        event.listen(database.writing, "before_cursor_execute", overtake)
        server.reconcile()
        assert not overtaking
        assert server.vif_type(port) == "ovs"
        assert database.transaction(lambda tx: tx.statuses.of([report.ref])) == {
            report.ref: (report,)
        }
