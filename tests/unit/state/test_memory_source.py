"""The source in memory, beyond what every source promises."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.values.reports import Heartbeat, RoleReport, StatusReport
from netfw.drivers.values.subscription import Service
from netfw.errors import CursorLost
from netfw.model.resource import ref
from netfw.model.router import HaRole
from netfw.model.values.common_fields import Status
from netfw.state.memory_source import MemorySource
from netfw.testing.conformance.state_source import samples
from tests.unit.state.cursors import cursor


def up(port, host=samples.HERE, **kwargs):
    given = {"service": Service.L2, "status": Status.ACTIVE, **kwargs}
    return StatusReport(ref=ref(port), revision=port.revision, host=host, **given)


def test_what_is_put_as_it_is_already_is_no_change():
    source = MemorySource(samples.WEB_HERE)
    before = cursor(source)
    source.put(samples.WEB_HERE)
    source.remove(ref(samples.NET))
    assert cursor(source) == before


def test_a_change_gets_a_higher_revision():
    source = MemorySource(samples.WEB_HERE)
    first = source.resources()[ref(samples.WEB_HERE)]
    source.put(evolve(samples.WEB_HERE, name="renamed"))
    second = source.resources()[ref(samples.WEB_HERE)]
    assert second.revision > first.revision > 0


def test_revisions_of_the_caller_are_kept():
    source = MemorySource(evolve(samples.WEB_HERE, revision=7))
    source.put(evolve(samples.WEB_HERE, revision=9, name="renamed"))
    assert source.resources()[ref(samples.WEB_HERE)].revision == 9


def test_a_second_life_has_another_revision():
    source = MemorySource(samples.WEB_HERE)
    first = source.resources()[ref(samples.WEB_HERE)]
    source.remove(ref(samples.WEB_HERE))
    source.put(samples.WEB_HERE)
    source.report([up(first)])
    assert source.status(ref(samples.WEB_HERE)) is None


def test_a_heartbeat_of_an_agent_is_not_news():
    source = MemorySource(samples.AGENT_THERE)
    before = cursor(source)
    source.put(evolve(samples.AGENT_THERE, heartbeat_at=datetime.now(UTC)))
    assert cursor(source) == before


def test_put_and_remove_in_one_commit_are_seen_together():
    source = MemorySource(samples.WEB_HERE)
    since = cursor(source)
    source.commit(put=(samples.port(9, samples.HERE),), remove=(ref(samples.WEB_HERE),))
    delta = source.changes(samples.L2_HERE, since)
    assert [resource.id for resource in delta.put] == [samples.port(9, samples.HERE).id]
    assert ref(samples.WEB_HERE) in delta.drop


def test_history_beyond_the_retention_is_lost():
    source = MemorySource(retention=2)
    since = cursor(source)
    for number in range(1, 4):
        source.put(samples.port(number, samples.HERE))
    with pytest.raises(CursorLost, match="take a snapshot"):
        source.changes(samples.L2_HERE, since)


def test_new_reports_reach_the_listener_until_it_stops():
    source, heard = MemorySource(samples.WEB_HERE), []
    port = source.resources()[ref(samples.WEB_HERE)]
    stop = source.listen(heard.append)
    source.report([up(port), up(port), up(port, samples.THERE)])
    assert heard == [up(port)]
    stop()
    source.report([up(port, status=Status.DOWN)])
    assert heard == [up(port)]
    assert source.status(ref(port)).status is Status.DOWN


def test_a_status_ends_with_the_binding_it_was_of():
    source = MemorySource(samples.WEB_HERE)
    port = source.resources()[ref(samples.WEB_HERE)]
    source.report([up(port)])
    source.put(evolve(port, name="renamed"))
    assert source.status(ref(port)) == up(port)
    source.put(evolve(port, binding=samples.OTHER_HOST_PORT.binding))
    assert source.status(ref(port)) is None


@pytest.mark.parametrize(
    ("service", "items", "assignment"),
    [
        (Service.L3, (samples.ROUTER,), samples.ROUTER_ASSIGNMENT),
        (Service.DHCP, (samples.NEIGHBOUR, samples.NET), samples.DHCP_ASSIGNMENT),
    ],
)
def test_report_is_new_after_its_assignment_was_removed_and_put_back(service, items, assignment):
    source, heard = MemorySource(*items, assignment), []
    source.listen(heard.append)
    resource = source.resources()[ref(items[0])]
    report = up(resource, service=service)
    source.report([report])
    source.remove(assignment)
    source.put(assignment)
    assert source.status(report.ref, service) is None
    source.report([report])
    assert heard == [report, report]
    assert source.status(report.ref, service) == report


def test_dhcp_reports_on_ports_of_the_networks_it_serves():
    source = MemorySource(samples.NET, samples.NEIGHBOUR, samples.DHCP_ASSIGNMENT)
    port = source.resources()[ref(samples.NEIGHBOUR)]
    ready = up(port, service=Service.DHCP)
    source.report([ready])
    assert source.status(ref(port), Service.DHCP) == ready
    assert source.status(ref(port), Service.L2) is None


def test_a_standby_does_not_take_a_port_on_several_hosts_down():
    source = MemorySource(samples.HA_INTERFACE)
    target = ref(samples.HA_INTERFACE)

    def status(**hosts):
        port = source.resources()[target]
        source.report([evolve(up(port, host), status=hosts[host]) for host in hosts])
        report = source.status(target)
        return None if report is None else (report.host, report.status)

    assert status(here=Status.DOWN) == ("here", Status.DOWN)
    assert status(there=Status.ACTIVE) == ("there", Status.ACTIVE)
    assert status(here=Status.ERROR) == ("there", Status.ACTIVE)
    binding = evolve(samples.HA_INTERFACE.binding, host="here")
    source.put(evolve(samples.HA_INTERFACE, binding=binding))
    assert status(there=Status.ACTIVE) == ("here", Status.ERROR)
    assert status(here=Status.ACTIVE, there=Status.DOWN) == ("here", Status.ACTIVE)


def test_a_router_on_several_hosts_works_if_it_works_on_one():
    source = MemorySource(samples.HA_ROUTER, *samples.HA_ASSIGNMENTS)
    router = source.resources()[ref(samples.HA_ROUTER)]
    for host, status in (("here", Status.ERROR), ("there", Status.ACTIVE), ("here", Status.DOWN)):
        source.report([up(router, host, service=Service.L3, status=status)])
    assert source.status(ref(router), Service.L3).status is Status.ACTIVE


def test_a_role_counts_whatever_the_revision_is():
    source = MemorySource(samples.HA_ROUTER, *samples.HA_ASSIGNMENTS)
    target = ref(samples.HA_ROUTER)
    source.report([RoleReport(ref=target, revision=77, host="here", role=HaRole.STANDBY)])
    assert source.roles(target) == {"here": HaRole.STANDBY}
    source.remove(samples.HA_ASSIGNMENTS[0])
    assert source.roles(target) == {}


def test_roles_of_a_router_are_kept_by_host():
    source = MemorySource(samples.HA_ROUTER, samples.HA_ASSIGNMENTS[0])
    target = ref(samples.HA_ROUTER)
    for host in (samples.HERE, samples.THERE):
        source.report([RoleReport(ref=target, revision=1, host=host, role=HaRole.ACTIVE)])
    assert source.roles(target) == {samples.HERE: HaRole.ACTIVE}


def test_router_that_is_not_highly_available_has_no_roles():
    source = MemorySource(samples.HA_ROUTER, samples.HA_ASSIGNMENTS[0])
    target = ref(samples.HA_ROUTER)
    role = RoleReport(ref=target, revision=1, host=samples.HERE, role=HaRole.ACTIVE)
    source.report([role])
    source.put(evolve(samples.HA_ROUTER, ha=False, vrid=None))
    source.report([role])
    source.put(samples.HA_ROUTER)
    assert source.roles(target) == {}


def test_the_last_heartbeat_of_each_agent_is_kept():
    source = MemorySource()
    source.report([Heartbeat(agent=samples.AGENT_THERE, start=True)])
    source.report([Heartbeat(agent=samples.AGENT_THERE, counts={"devices": 3})])
    assert [beat.counts for beat in source.heartbeats()] == [{"devices": 3}]


def test_notification_goes_only_to_concerned_subscriptions():
    source, here, there = MemorySource(), [], []
    source.watch(samples.L2_HERE, lambda: here.append(1))
    source.watch(samples.L2_THERE, lambda: there.append(1))
    source.put(samples.WEB_HERE)
    assert (here, there) == ([1], [])
    source.restore()
    assert (here, there) == ([1, 1], [1])


def test_closed_source_sends_no_notifications():
    source, hints = MemorySource(), []
    source.watch(samples.L2_HERE, lambda: hints.append(1))
    source.close()
    source.put(samples.WEB_HERE)
    assert hints == []


def calls_of(function):
    """Return the number of Python and C calls of *function*, a cost that no load changes."""
    count = 0

    def tick(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(tick)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.slow
@pytest.mark.spec("RPC-02")
def test_the_cost_of_changes_is_the_change_and_not_the_total():
    costs = []
    for total in (20, 2000):
        others = (
            evolve(
                samples.port(1, samples.HERE if number % 2 else samples.THERE),
                id=UUID(int=10_000 + number),
            )
            for number in range(total)
        )
        source = MemorySource(*samples.BACKGROUND, *others)
        since = cursor(source)
        commit = calls_of(lambda source=source: source.put(samples.WEB_HERE))
        read = calls_of(lambda source=source, since=since: source.changes(samples.L2_HERE, since))
        costs.append((commit, read))
    few, many = costs
    assert many[0] <= few[0] * 1.1
    assert many[1] <= few[1] * 1.1
