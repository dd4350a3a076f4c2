"""Requests, role reports and agents that come and go at once around a highly available router."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from sqlalchemy import text

from netfw.drivers.values.reports import RoleReport
from netfw.model.resource import Kind, Ref
from netfw.model.router import HaRole
from netfw.server.db import Database
from tests.lab.databases import SERVER_PARAMETERS, DatabaseServers
from tests.lab.server.l3.environment import ADMIN, Json
from tests.lab.server.l3.ha_samples import activate, ha_networks, ha_ports, ha_router, l3_agent
from tests.lab.server.l3.meeting import Meeting

pytestmark = pytest.mark.spec("API-17", "API-18")


class HaMeeting(Meeting):
    """A highly available router with an interface, on hosts ``one`` and ``two``."""

    def __init__(self, database: Database, pool: ThreadPoolExecutor) -> None:
        super().__init__(database, pool)
        (plain,) = self.core.find("agent", host="a")
        self.core.delete("agent", plain["id"], ADMIN)
        for host in ("one", "two"):
            l3_agent(self.core, host)
        _, self.inside = self.core.inside("10.8.0.0/24")
        _, self.further = self.core.inside("10.9.0.0/24")
        self.ha = ha_router(self.core)
        self.core.connect(self.ha, subnet_id=self.inside)

    def activate(self, *hosts: str) -> None:
        """Report that hosts are active, in one message."""
        target = Ref(Kind.ROUTER, UUID(self.ha))
        reports = [
            RoleReport(ref=target, revision=0, host=host, role=HaRole.ACTIVE) for host in hosts
        ]
        self.core.plugin("network").handle_reports(reports)

    def agent(self, host: str) -> Json:
        (agent,) = self.core.find("agent", host=host)
        return agent

    def disconnect(self) -> None:
        self.core.disconnect(self.ha, subnet_id=self.inside)

    def bound_to(self) -> set[str]:
        ports = self.core.find("port", device_id=self.ha)
        return {each["binding:host_id"] for each in ports if "replicated" in each["device_owner"]}

    def roles(self) -> list[str]:
        with self.database.reading.connect() as connection:
            rows = connection.execute(text("SELECT host FROM router_roles ORDER BY host"))
            return list(rows.scalars())

    def hosts(self, router: str) -> list[str]:
        return sorted(each["host"] for each in self.core.find("l3_agent", router_id=router))

    def assigned(self, router: str) -> list[str]:
        """Return the hosts of the router, also those without an agent."""
        with self.database.reading.connect() as connection:
            query = "SELECT host FROM assignments WHERE resource_id = :id ORDER BY host"
            return list(connection.execute(text(query), {"id": router}).scalars())


@pytest.fixture(params=SERVER_PARAMETERS)
def meeting(
    request: pytest.FixtureRequest, database_servers: DatabaseServers
) -> Iterator[HaMeeting]:
    database = Database(database_servers.filled(request.param))
    try:
        with ThreadPoolExecutor(4) as pool:
            yield HaMeeting(database, pool)
    finally:
        database.close()


def test_a_report_on_a_router_that_is_being_deleted_is_ignored(meeting: HaMeeting) -> None:
    meeting.disconnect()
    with meeting.stopped(meeting.core.delete, "router", meeting.ha) as deletion:
        report = meeting.start(meeting.activate, "one")
    deletion.result(60)
    report.result(60)
    assert (meeting.roles(), ha_networks(meeting.core)) == ([], [])


def test_a_router_is_deleted_while_its_role_is_recorded(meeting: HaMeeting) -> None:
    meeting.activate("one")
    with meeting.stopped(meeting.activate, "two") as report:
        removal = meeting.start(meeting.disconnect)
    report.result(60)
    removal.result(60)
    meeting.core.delete("router", meeting.ha)
    assert (meeting.roles(), ha_networks(meeting.core)) == ([], [])


def test_a_report_is_recorded_while_an_interface_is_removed(meeting: HaMeeting) -> None:
    meeting.activate("one")
    meeting.core.connect(meeting.ha, subnet_id=meeting.further)
    with meeting.stopped(meeting.disconnect) as removal:
        report = meeting.start(meeting.activate, "two")
    removal.result(60)
    report.result(60)
    assert meeting.roles() == ["one", "two"]
    assert meeting.bound_to() == {"two"}


def test_a_report_of_a_router_that_becomes_plain_does_not_count(meeting: HaMeeting) -> None:
    meeting.core.update("router", meeting.ha, ADMIN, admin_state_up=False)
    core = meeting.core
    with meeting.stopped(lambda: core.update("router", meeting.ha, ADMIN, ha=False)) as conversion:
        report = meeting.start(meeting.activate, "one", "two")
    conversion.result(60)
    report.result(60)
    assert meeting.roles() == []
    assert ha_ports(core, meeting.ha) == []


def test_a_report_of_a_host_whose_agent_is_being_deleted_does_not_count(meeting: HaMeeting) -> None:
    agent = meeting.agent("one")["id"]
    with meeting.stopped(meeting.core.delete, "agent", agent, ADMIN) as deletion:
        report = meeting.start(meeting.activate, "one")
    deletion.result(60)
    report.result(60)
    assert (meeting.roles(), meeting.bound_to()) == ([], {""})
    assert [port["binding:host_id"] for port in ha_ports(meeting.core, meeting.ha)] == ["two"]


@pytest.mark.parametrize("ha", [True, False])
def test_a_router_does_not_stay_with_an_agent_that_was_deleted_meanwhile(
    meeting: HaMeeting, ha: bool
) -> None:
    router = meeting.core.router(ADMIN, project_id="anna", ha=ha)
    agents = [meeting.agent(host)["id"] for host in ("one", "two")]
    with meeting.stopped(meeting.core.delete, "agent", agents[0], ADMIN) as first:
        with meeting.stopped(meeting.core.delete, "agent", agents[1], ADMIN) as second:
            connection = meeting.start(
                lambda: meeting.core.connect(router, ADMIN, subnet_id=meeting.further)
            )
            connection.result(60)
        second.result(60)
    first.result(60)
    assert meeting.assigned(router) == []
    l3_agent(meeting.core, "three")
    assert meeting.assigned(router) == ["three"]
    hosts = [port["binding:host_id"] for port in ha_ports(meeting.core, router)]
    assert hosts == (["three"] if ha else [])


def test_reports_of_all_hosts_at_once_leave_one_of_them_bound(meeting: HaMeeting) -> None:
    with ThreadPoolExecutor(4) as pool:
        work = [pool.submit(activate, meeting.core, meeting.ha, host) for host in ("one", "two")]
        for each in work:
            each.result(60)
    assert meeting.roles() == ["one", "two"]
    assert meeting.bound_to() in ({"one"}, {"two"})
