"""Roles of highly available routers, by what their hosts report."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import event

from netfw.drivers.server.mechanism import MechanismDriver
from netfw.drivers.values.reports import RoleReport
from netfw.model.resource import Kind, Ref
from netfw.model.router import HaRole
from netfw.server.agents.agents import L3_AGENT
from netfw.server.core.server_context import SERVER
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db import Database
from netfw.server.l3.ha.router_roles import RouterRoles
from netfw.server.l3.ha.split_detection import SplitDetector
from netfw.server.scheduling.assignments import AgentAssignments
from netfw_drivers.ovs.mechanism.driver import OvsMechanismDriver
from tests.lab.server.l3.environment import ADMIN, Layer3
from tests.server.core.agent_samples import beat, grow_old

pytestmark = pytest.mark.spec("API-18", "L3-42")

ACTIVE, STANDBY, FAULT = HaRole.ACTIVE, HaRole.STANDBY, HaRole.FAULT
HOSTS = ("a", "b")
BOOT = UUID(int=1)
OPTIONS: dict[str, Any] = {"max_l3_agents_per_router": 2, "agent_down_time": 500}
"""Agents report once in a test, and live until it ends, however slow the machine is."""


class HaSite:
    """A highly available router with gateway and interface on hosts ``a`` and ``b``."""

    def __init__(self, database: Database, mechanisms: Sequence[MechanismDriver] = ()) -> None:
        self.core = Layer3(database, mechanisms=mechanisms, **OPTIONS)
        for host in (*HOSTS, "c"):
            self.core.core.agent_services.agents([beat(host)])
            self.beat(host)
        self.outside, _ = self.core.outside()
        self.router = self.make_router("10.0.0.0/24")

    def make_router(self, cidr: str) -> str:
        _, subnet = self.core.inside(cidr)
        router = self.core.router(ADMIN, ha=True)
        self.core.lead_out(router, self.outside, ADMIN)
        self.core.connect(router, ADMIN, subnet_id=subnet)
        self.assign(router, *HOSTS)
        return router

    def beat(self, host: str) -> None:
        self.core.core.agent_services.agents([beat(host, L3_AGENT)])

    def assign(self, router: str, *hosts: str) -> None:
        """Assign the router to exactly *hosts*, and its ports with it."""
        target = Ref(Kind.ROUTER, UUID(router))
        assignments = AgentAssignments(L3_AGENT, self.core.context.settings)

        def change(unit: UnitOfWork) -> None:
            present = assignments.hosts(unit.tx, target)
            for host in sorted(set(hosts) - present):
                assignments.assign(unit, target, host)
            if gone := present - set(hosts):
                assignments.unassign(unit, target, *gone)

        self.core.context.run(SERVER, change)

    def report(
        self,
        *roles: tuple[str, HaRole],
        router: str | None = None,
        handle: Callable[[list[RoleReport]], object] | None = None,
        boot: UUID | None = None,
        since: int = 0,
    ) -> None:
        target = Ref(Kind.ROUTER, UUID(router or self.router))
        reports = [
            RoleReport(ref=target, revision=0, host=host, role=role, boot=boot, since=since)
            for host, role in roles
        ]
        (handle or self.core.plugin("network").handle_reports)(reports)

    def another_server(self) -> Callable[[list[RoleReport]], object]:
        """Return the handler of reports of another server on the same database."""
        core = Layer3(self.core.context.database, **OPTIONS)
        handle: Callable[[list[RoleReport]], object] = core.plugin("network").handle_reports
        return handle

    def states(self) -> dict[str, str | None]:
        agents = self.core.find("l3_agent", router_id=self.router)
        return {agent["host"]: agent["ha_state"] for agent in agents}

    def bound_to(self, router: str | None = None) -> set[str]:
        ports = self.core.ports_of(router or self.router)
        attached = [port for port in ports if port["device_owner"] != "network:router_ha_interface"]
        assert len(attached) >= 2
        return {port["binding:host_id"] for port in attached}


@pytest.fixture
def site(file_database: Database) -> HaSite:
    return HaSite(file_database)


@contextmanager
def statements(database: Database) -> Iterator[list[str]]:
    """Record the statements that write."""
    executed: list[str] = []

    def record(_: Any, cursor: Any, statement: str, *rest: Any) -> None:
        executed.append(statement)

    event.listen(database.writing, "before_cursor_execute", record)
    try:
        yield executed
    finally:
        event.remove(database.writing, "before_cursor_execute", record)


def test_each_agent_of_an_ha_router_has_the_state_that_it_reported(site: HaSite) -> None:
    assert site.states() == {"a": "unknown", "b": "unknown"}
    site.report(("a", ACTIVE), ("b", STANDBY))
    assert site.states() == {"a": "active", "b": "standby"}
    site.report(("a", FAULT))
    site.report(("b", ACTIVE))
    assert site.states() == {"a": "standby", "b": "active"}


def test_agents_of_a_plain_router_have_no_state(site: HaSite) -> None:
    site.router = site.core.router(ADMIN)
    _, subnet = site.core.inside("10.9.0.0/24")
    site.core.connect(site.router, ADMIN, subnet_id=subnet)
    site.report(*((host, ACTIVE) for host in (*HOSTS, "c")))
    assert list(site.states().values()) == [None]


def test_the_state_of_a_dead_agent_is_unknown(site: HaSite) -> None:
    site.report(("a", ACTIVE), ("b", STANDBY))
    grow_old(site.core.context, "a", 600)
    assert site.states() == {"a": "unknown", "b": "standby"}
    site.report(("b", ACTIVE))
    assert site.states() == {"a": "unknown", "b": "active"}
    site.beat("a")
    assert site.states() == {"a": "active", "b": "active"}
    site.report(("a", STANDBY))
    assert site.states() == {"a": "standby", "b": "active"}


def test_ports_are_bound_to_the_active_host(site: HaSite) -> None:
    assert site.bound_to() == {""}
    site.report(("a", STANDBY), ("b", STANDBY))
    assert site.bound_to() == {""}
    site.report(("a", ACTIVE))
    assert site.bound_to() == {"a"}
    site.report(("b", ACTIVE))
    assert site.bound_to() == {"b"}
    site.report(("b", STANDBY), ("a", STANDBY))
    assert site.bound_to() == {"b"}
    site.report(("a", ACTIVE))
    assert site.bound_to() == {"a"}


def test_ports_are_bound_to_the_active_host_that_is_left(site: HaSite) -> None:
    site.report(("a", ACTIVE), ("b", ACTIVE))
    assert site.bound_to() == {"b"}
    site.report(("b", FAULT))
    assert site.bound_to() == {"a"}


def test_ports_leave_a_dead_host_with_a_repeated_report_of_the_active_one(site: HaSite) -> None:
    site.report(("a", ACTIVE), ("b", STANDBY))
    grow_old(site.core.context, "a", 600)
    site.report(("b", ACTIVE))
    grow_old(site.core.context, "b", 600)
    site.beat("a")
    site.report(("a", ACTIVE))
    assert site.states() == {"a": "active", "b": "unknown"}
    assert site.bound_to() == {"a"}


def test_ports_are_not_bound_to_a_dead_host_when_the_active_one_is_removed(site: HaSite) -> None:
    site.assign(site.router, "a", "b", "c")
    site.report(("a", ACTIVE))
    grow_old(site.core.context, "a", 600)
    site.report(("b", ACTIVE), ("c", STANDBY))
    site.assign(site.router, "a", "c")
    assert site.bound_to() == {""}
    site.beat("a")
    site.report(("a", ACTIVE))
    assert site.bound_to() == {"a"}


def test_repeated_reports_of_two_living_active_hosts_cost_no_transaction(site: HaSite) -> None:
    site.report(("a", ACTIVE), ("b", ACTIVE))
    with statements(site.core.context.database) as executed:
        site.report(("a", ACTIVE))
    assert not executed
    assert site.bound_to() == {"b"}


def test_a_new_port_is_bound_to_the_active_host_at_once(site: HaSite) -> None:
    site.report(("b", ACTIVE))
    _, subnet = site.core.inside("10.7.0.0/24")
    site.core.connect(site.router, ADMIN, subnet_id=subnet)
    assert site.bound_to() == {"b"}


@pytest.mark.parametrize("crashed", [True, False])
def test_a_router_that_stays_active_on_two_living_hosts_is_logged_once(
    site: HaSite, caplog: pytest.LogCaptureFixture, crashed: bool
) -> None:
    now, wait = [0.0], site.core.context.settings.agent_down_time + 1
    splits = SplitDetector(site.core.context, clock=lambda: now[0])
    report = partial(site.report, handle=RouterRoles(site.core.context, splits))
    with caplog.at_level(logging.WARNING):
        report(("a", ACTIVE))
        report(("b", ACTIVE))
        assert site.bound_to() == {"b"}
        splits.reconcile()
        assert not caplog.records
        now[0] += wait
        if crashed:
            grow_old(site.core.context, "a", int(wait))
        for _ in range(2):
            splits.reconcile()
            now[0] += wait
    texts = [record.getMessage() for record in caplog.records]
    assert [text.split(",")[0] for text in texts] == (
        [] if crashed else [f"router {site.router}: active on a and b at once"]
    )


def test_roles_of_strangers_and_of_unknown_routers_do_not_count(site: HaSite) -> None:
    site.report(("c", ACTIVE), ("a", STANDBY))
    site.report(("a", ACTIVE), router=str(uuid4()))
    assert site.states() == {"a": "standby", "b": "unknown"}
    assert site.bound_to() == {""}


def test_the_role_of_a_host_goes_with_its_assignment(site: HaSite) -> None:
    site.report(("a", ACTIVE), ("b", STANDBY))
    site.assign(site.router, "b", "c")
    assert site.states() == {"b": "standby", "c": "unknown"}
    assert site.bound_to() == {""}
    site.assign(site.router, "a", "b")
    assert site.states() == {"a": "unknown", "b": "standby"}


def test_roles_go_when_a_router_is_no_longer_highly_available(site: HaSite) -> None:
    site.report(("a", ACTIVE), ("b", STANDBY))
    site.core.update("router", site.router, ADMIN, admin_state_up=False)
    for ha in (False, True):
        site.core.update("router", site.router, ADMIN, ha=ha)
    assert set(site.states().values()) <= {"unknown"}


def test_a_router_that_becomes_plain_stays_on_a_host_with_a_live_agent(site: HaSite) -> None:
    site.report(("a", ACTIVE), ("b", STANDBY))
    grow_old(site.core.context, "a", 600)
    site.core.update("router", site.router, ADMIN, admin_state_up=False)
    site.core.update("router", site.router, ADMIN, ha=False)
    assert list(site.states()) == ["b"]
    assert site.bound_to() == {"b"}


def test_deleted_routers_leave_no_roles(site: HaSite) -> None:
    site.report(("a", ACTIVE))
    for port in site.core.ports_of(site.router):
        if port["device_owner"] == "network:ha_router_replicated_interface":
            site.core.disconnect(site.router, ADMIN, port_id=port["id"])
    site.core.delete("router", site.router, ADMIN)
    with site.core.context.database.reading.connect() as connection:
        assert not connection.exec_driver_sql("SELECT * FROM router_roles").all()


def test_reports_in_one_message_are_one_transaction_and_known_ones_none(site: HaSite) -> None:
    other = site.make_router("10.8.0.0/24")
    database = site.core.context.database
    reports = [
        RoleReport(ref=Ref(Kind.ROUTER, UUID(router)), revision=0, host=host, role=role)
        for router in (site.router, other)
        for host, role in (("a", ACTIVE), ("b", STANDBY))
    ]
    before = database.read(lambda view: view.journal.cursor()).seq
    site.core.plugin("network").handle_reports(reports)
    assert database.read(lambda view: view.journal.cursor()).seq == before + 1
    assert site.bound_to() == site.bound_to(other) == {"a"}
    with statements(database) as executed:
        site.core.plugin("network").handle_reports(reports)
    assert not executed


def test_a_failover_costs_an_update_of_each_port_and_nothing_else_for_each_router(
    file_database: Database,
) -> None:
    site = HaSite(file_database, mechanisms=(OvsMechanismDriver(),))
    routers = [site.router, *(site.make_router(f"10.{number}.0.0/24") for number in range(1, 5))]

    def fail_over(host: str, *some: str) -> int:
        reports = [
            RoleReport(ref=Ref(Kind.ROUTER, UUID(router)), revision=0, host=host, role=ACTIVE)
            for router in some
        ]
        with statements(site.core.context.database) as executed:
            site.core.plugin("network").handle_reports(reports)
        return len(executed)

    fail_over("a", *routers)
    one, four = fail_over("b", routers[0]), fail_over("b", *routers[1:])
    ports = 2
    assert four - one == 3 * ports
    bound = {port["binding:vif_type"] for port in site.core.ports_of(site.router)}
    assert bound == {"ovs"}
    assert all(site.bound_to(router) == {"b"} for router in routers)


def test_a_report_that_was_overtaken_by_a_later_one_changes_nothing(site: HaSite) -> None:
    other = site.another_server()
    site.report(("a", STANDBY), ("b", STANDBY), boot=BOOT, since=5)
    site.report(("b", ACTIVE), boot=BOOT, since=8, handle=other)
    site.report(("a", STANDBY), boot=BOOT, since=7, handle=other)
    site.report(("a", ACTIVE), boot=BOOT, since=6)
    assert site.states() == {"a": "standby", "b": "active"}
    assert site.bound_to() == {"b"}
    site.report(("a", ACTIVE), boot=BOOT, since=9)
    assert site.states() == {"a": "active", "b": "active"}


def test_times_of_another_boot_are_not_compared(site: HaSite) -> None:
    site.report(("a", ACTIVE), boot=BOOT, since=5_000_000)
    site.report(("a", STANDBY), boot=UUID(int=2), since=1_000_000)
    assert site.states()["a"] == "standby"
    site.report(("a", ACTIVE))
    assert site.states()["a"] == "active", "a report without a time is the latest"


@pytest.mark.parametrize("reverse", [False, True])
def test_reports_of_one_host_that_servers_handle_at_once_leave_the_later_role(
    database: Database, reverse: bool
) -> None:
    site = HaSite(database)
    other = site.another_server()
    site.report(("a", STANDBY), ("b", STANDBY), boot=BOOT, since=5)
    both = [
        partial(site.report, ("a", ACTIVE), boot=BOOT, since=6),
        partial(site.report, ("a", STANDBY), boot=BOOT, since=7, handle=other),
    ]
    first, second = reversed(both) if reverse else both
    overlapping = threading.Thread(target=second)

    def report_meanwhile(_: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if statement.startswith("UPDATE router_roles") and overlapping.ident is None:
            overlapping.start()
            overlapping.join(0.5)  # it ends only if it does not wait for this transaction

    event.listen(database.writing, "before_cursor_execute", report_meanwhile)
    first()
    overlapping.join()
    event.remove(database.writing, "before_cursor_execute", report_meanwhile)
    assert site.states() == {"a": "standby", "b": "standby"}


def test_a_new_role_without_another_active_host_changes_no_port(site: HaSite) -> None:
    site.report(("a", ACTIVE), ("b", STANDBY))
    revisions = {port["id"]: port["revision_number"] for port in site.core.ports_of(site.router)}
    site.report(("b", FAULT))
    site.report(("a", ACTIVE))
    for port in site.core.ports_of(site.router):
        assert port["revision_number"] == revisions[port["id"]]
