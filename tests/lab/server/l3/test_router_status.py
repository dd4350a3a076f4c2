"""Statuses of routers and floating IPs, by what hosts report."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import event

from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service
from netfw.model.resource import Kind, Ref
from netfw.server.db import Database
from netfw.testing.lab.wait import wait_until
from tests.lab.server.l3.environment import ADMIN
from tests.lab.server.l3.status_samples import ACTIVE, DOWN, ERROR, KINDS, Site

pytestmark = pytest.mark.spec("API-18", "RPC-03", "L3-10")

L3_AGENT = "L3 agent"


@pytest.fixture
def site(file_database: Database) -> Site:
    return Site(file_database, "a")


def test_statuses_follow_the_reports_of_the_host(site: Site) -> None:
    assert site.statuses() == ("BUILD", "DOWN")
    assert site.report("router", ACTIVE) == "ACTIVE"
    assert site.report("floatingip", ACTIVE) == "ACTIVE"
    assert site.report("router", DOWN) == "DOWN"
    assert site.report("router", ERROR) == "ERROR"
    assert site.report("floatingip", ERROR) == "ERROR"
    assert site.report("floatingip", ACTIVE) == "ACTIVE"


@pytest.mark.parametrize("name", KINDS)
def test_only_reports_of_serving_hosts_and_of_the_present_revision_count(
    site: Site, name: str
) -> None:
    before = site.body(name)["status"]
    assert site.report(name, ACTIVE, "stranger") == before
    assert site.report(name, ACTIVE, "vm") == before
    assert site.report(name, ACTIVE, older=1) == before


@pytest.mark.parametrize("name", KINDS)
def test_several_hosts_are_as_good_as_the_best(site: Site, name: str) -> None:
    site.assign("a", "b")
    assert site.report(name, ERROR) == "ERROR"
    assert site.report(name, ACTIVE, "b") == "ACTIVE"
    assert site.report(name, DOWN) == "ACTIVE"
    assert site.report(name, DOWN, "b") == "DOWN"


def test_a_reason_is_shown_while_something_is_not_active(site: Site) -> None:
    assert site.body("router")["status_reason"] is None
    site.report("router", ERROR, reason="iptables-restore: line 7 failed")
    site.report("floatingip", ERROR, reason="203.0.113.9 is in use")
    assert site.body("router")["status_reason"] == "a: iptables-restore: line 7 failed"
    assert site.body("floatingip")["status_reason"] == "a: 203.0.113.9 is in use"
    site.report_both(ACTIVE)
    assert site.body("router")["status_reason"] is None
    assert site.body("floatingip")["status_reason"] is None


def test_statuses_are_down_when_every_host_is_dead_and_return_with_a_host(
    database: Database,
) -> None:
    site = Site(database, "a")
    site.beat("b")
    site.assign("a", "b")
    site.report_both(ACTIVE)
    site.report_both(ACTIVE, "b")
    site.die("a")
    assert site.statuses() == ("ACTIVE", "ACTIVE")
    site.die("b")
    assert site.statuses() == ("DOWN", "DOWN")
    site.beat("b")
    assert site.statuses() == ("ACTIVE", "ACTIVE")


def test_a_router_on_a_dead_and_a_live_host_is_not_recomputed_again_and_again(
    database: Database,
) -> None:
    site = Site(database, "a")
    site.beat("b")
    site.assign("a", "b")
    site.report_both(ACTIVE)
    site.report_both(ERROR, "b")
    site.die("a")
    assert site.statuses() == ("ERROR", "ERROR")
    site.report_both(ACTIVE, "b")
    assert site.statuses() == ("ACTIVE", "ACTIVE")
    locked: list[str] = []

    @event.listens_for(database.writing, "before_cursor_execute")
    def record(_: Any, cursor: Any, statement: str, *rest: Any) -> None:
        locked.append(statement)

    site.reconcile()
    event.remove(database.writing, "before_cursor_execute", record)
    assert not locked


def test_a_router_that_no_host_reported_is_down_when_its_host_dies(site: Site) -> None:
    site.die("a")
    assert site.statuses() == ("DOWN", "DOWN")


def test_a_report_of_a_host_that_was_silent_counts_at_once(site: Site) -> None:
    site.die("a")
    site.report_both(ACTIVE)
    assert site.statuses() == ("ACTIVE", "ACTIVE")


def test_statuses_wait_until_a_death_is_confirmed(file_database: Database) -> None:
    site = Site(file_database, "a", failover_grace=60.0)
    site.report_both(ACTIVE)
    site.die("a")
    assert site.statuses() == ("ACTIVE", "ACTIVE")


def test_the_death_of_each_host_is_confirmed(file_database: Database) -> None:
    site = Site(file_database, "a", "b", failover_grace=0.2)
    site.assign("a")
    site.report_both(ACTIVE)

    def dead() -> bool:
        site.reconcile()
        return site.statuses() == ("DOWN", "DOWN")

    site.die("a")
    wait_until(dead)
    site.assign("a", "b")
    site.report_both(ACTIVE, "b")
    site.die("b")
    assert site.statuses() == ("ACTIVE", "ACTIVE"), "the server has just begun to observe b"
    wait_until(dead)


def test_a_rescheduled_router_waits_for_its_new_host(file_database: Database) -> None:
    site = Site(file_database, "a", allow_automatic_l3agent_failover=True)
    site.report_both(ACTIVE)
    site.beat("b")
    site.die("a")
    assert site.hosts() == {"b"}
    assert site.statuses() == ("BUILD", "DOWN")
    assert site.report("router", ACTIVE, "a") == "BUILD"
    site.report_both(ACTIVE, "b")
    assert site.statuses() == ("ACTIVE", "ACTIVE")
    site.beat("a")
    site.assign("a")
    assert site.statuses() == ("BUILD", "DOWN"), "what the host reported before is void"


def test_a_router_without_a_host_is_down_while_it_has_ports(database: Database) -> None:
    site = Site(database, "a")
    site.report_both(ACTIVE)
    (agent,) = site.core.find("agent", agent_type=L3_AGENT)
    site.core.delete("agent", agent["id"], ADMIN)
    site.reconcile()
    assert site.statuses() == ("DOWN", "DOWN")
    assert site.core.show("router", site.core.router())["status"] == "ACTIVE"
    site.beat("a")
    assert site.body("router")["status"] == "BUILD"


def test_a_restart_of_the_server_keeps_statuses(site: Site) -> None:
    site.report_both(ACTIVE)
    site.restart()
    site.reconcile()
    assert site.statuses() == ("ACTIVE", "ACTIVE")
    site.die("a")
    site.restart()
    site.reconcile()
    assert site.statuses() == ("DOWN", "DOWN")
    site.beat("a")
    assert site.statuses() == ("ACTIVE", "ACTIVE")


def test_a_change_keeps_the_status_until_the_next_report(site: Site) -> None:
    site.report_both(ACTIVE)
    site.core.update("router", site.router, ADMIN, name="another")
    site.core.update("floatingip", site.floatingip, description="the same")
    assert site.statuses() == ("ACTIVE", "ACTIVE")


@pytest.mark.parametrize("ha", [True, False])
def test_a_converted_router_waits_for_its_hosts_again(file_database: Database, ha: bool) -> None:
    site = Site(file_database, "a", "b")
    site.core.update("router", site.router, ADMIN, admin_state_up=False, ha=not ha)
    hosts = site.hosts()
    for host in hosts:
        site.report_both(ACTIVE, host)
    revision = site.body("floatingip")["revision_number"]
    made = site.core.update("router", site.router, ADMIN, ha=ha)
    assert made["status"] == site.body("router")["status"] == "BUILD"
    floating = site.body("floatingip")
    assert floating["status"] == "DOWN"
    assert floating["revision_number"] > revision, "a host reports each revision"
    kept = min(hosts & site.hosts())
    assert site.report("router", ACTIVE, kept, older=1) == "BUILD", "it is of the former kind"
    site.reconcile()
    assert site.body("router")["status"] == "BUILD"
    assert site.report("router", ACTIVE, kept) == "ACTIVE"
    assert site.report("floatingip", ACTIVE, kept, older=1) == "DOWN"
    assert site.report("floatingip", ACTIVE, kept) == "ACTIVE"


@pytest.mark.parametrize("ha", [True, False])
def test_a_router_that_is_converted_while_its_hosts_are_dead_is_down(
    file_database: Database, ha: bool
) -> None:
    site = Site(file_database, "a", failover_grace=60.0)
    site.core.update("router", site.router, ADMIN, admin_state_up=False, ha=not ha)
    site.report_both(ACTIVE)
    site.die("a")
    assert site.core.update("router", site.router, ADMIN, ha=ha)["status"] == "DOWN"
    site.beat("a")
    assert site.report("router", ACTIVE) == "ACTIVE"


def test_reports_of_another_association_do_not_count(site: Site) -> None:
    assert site.report("floatingip", ACTIVE) == "ACTIVE"
    site.core.update("floatingip", site.floatingip, port_id=None)
    assert site.report("floatingip", ACTIVE) == "DOWN"
    site.core.update("floatingip", site.floatingip, port_id=site.port)
    assert site.body("floatingip")["status"] == "DOWN"
    assert site.report("floatingip", ACTIVE) == "ACTIVE"
    site.core.delete("port", site.port)
    assert site.body("floatingip")["status"] == "DOWN"


def test_a_floating_ip_that_forwards_ports_has_a_status_too(site: Site) -> None:
    site.core.update("floatingip", site.floatingip, port_id=None)
    site.core.create(
        "port_forwarding",
        floatingip_id=site.floatingip,
        protocol="tcp",
        external_port=80,
        internal_port=80,
        internal_port_id=site.port,
    )
    assert site.report("floatingip", ACTIVE) == "ACTIVE"
    site.die("a")
    assert site.body("floatingip")["status"] == "DOWN"


@pytest.mark.parametrize("name", KINDS)
def test_reports_on_what_is_deleted_are_ignored(site: Site, name: str) -> None:
    body = site.body(name)
    site.report_both(ACTIVE)
    site.core.delete("floatingip", site.floatingip)
    site.core.disconnect(site.router, ADMIN, subnet_id=site.subnet)
    site.core.delete("router", site.router, ADMIN)
    report = StatusReport(
        ref=Ref(KINDS[name], UUID(body["id"])),
        revision=body["revision_number"],
        host="a",
        service=Service.L3,
        status=ACTIVE,
    )
    site.core.plugin("network").handle_reports([report])
    left = site.core.context.run(ADMIN, lambda unit: unit.tx.statuses.of([report.ref]))
    assert left == {}


def test_a_message_with_many_reports_costs_as_many_statements_as_one(site: Site) -> None:
    network = site.core.show("port", site.port)["network_id"]
    outside = site.body("floatingip")["floating_network_id"]
    made = [
        site.core.create(
            "floatingip", floating_network_id=outside, port_id=site.core.port(network)["id"]
        )
        for _ in range(8)
    ]
    statements: list[str] = []
    event.listen(
        site.core.context.database.writing,
        "before_cursor_execute",
        lambda *arguments: statements.append(arguments[2]),
    )

    def count(*bodies: dict[str, Any]) -> int:
        statements.clear()
        reports = [
            StatusReport(
                ref=Ref(Kind.FLOATING_IP, UUID(body["id"])),
                revision=body["revision_number"],
                host="a",
                service=Service.L3,
                status=ACTIVE,
            )
            for body in bodies
        ]
        site.core.plugin("network").handle_reports(reports)
        return len(statements)

    assert count(made[0]) == count(*made[1:])
    assert {body["status"] for body in site.core.find("floatingip")} == {"ACTIVE", "DOWN"}
