"""Roles are reported in batches: only changes, the latest one, and all of them after a resync."""

from uuid import UUID

import pytest
from attrs import evolve

from netfw.agents.l3.role_reporter import RoleReporter
from netfw.model.router import HaRole, Router
from netfw.model.values.ids import RouterId

ACTIVE, STANDBY, FAULT = HaRole.ACTIVE, HaRole.STANDBY, HaRole.FAULT
ONE, TWO = (Router(id=RouterId(UUID(int=n)), revision=3, ha=True) for n in (1, 2))
ROUTERS = {each.id: each for each in (ONE, TWO)}
pytestmark = pytest.mark.spec("L3-41")


def reporter(*roles, interval=2.0):
    """Return a reporter that has reported these roles of ONE already."""
    made = RoleReporter("here", interval)
    for role in roles:
        made.record_event(ONE.id, role, 0.0)
        take(made, 100.0)
    return made


def take(made, now, routers=ROUTERS):
    return [(each.ref.id, each.role) for each in made.take(routers.get, now)]


def test_changes_of_an_interval_are_one_batch():
    made = reporter()
    assert made.delay(9.0) is None
    made.record_event(ONE.id, STANDBY, 10.0)
    made.record_event(TWO.id, STANDBY, 11.0)
    made.record_event(ONE.id, ACTIVE, 11.5)
    assert take(made, 11.9) == []
    assert made.delay(11.5) == 0.5
    assert take(made, 12.0) == [(ONE.id, ACTIVE), (TWO.id, STANDBY)]
    assert made.delay(12.0) is None
    made.record_event(TWO.id, ACTIVE, 13.0)
    assert (made.delay(13.0), take(made, 15.0)) == (2.0, [(TWO.id, ACTIVE)])


def test_report_has_revision_host_and_role():
    made = reporter()
    made.record_event(ONE.id, FAULT, 10.0)
    (report,) = made.take(ROUTERS.get, 12.0)
    assert (report.revision, report.host, report.role) == (3, "here", FAULT)


def test_role_that_is_back_within_the_interval_is_not_reported():
    made = reporter(ACTIVE)
    made.record_event(ONE.id, STANDBY, 10.0)
    made.record_event(ONE.id, ACTIVE, 11.0)
    assert take(made, 12.0) == []


def test_status_that_was_read_before_an_event_is_discarded():
    made = reporter()

    def read():
        made.record_event(ONE.id, ACTIVE, 10.0)
        return STANDBY

    made.record_status(ONE.id, read, 10.0)
    assert take(made, 12.0) == [(ONE.id, ACTIVE)]
    made.record_status(ONE.id, lambda: STANDBY, 13.0)
    assert take(made, 15.0) == [(ONE.id, STANDBY)]
    made.record_status(ONE.id, lambda: None, 16.0)
    assert made.count(STANDBY) == 1, "a role that cannot be read has not changed"


@pytest.mark.spec("L3-42")
def test_all_roles_are_reported_again_at_once():
    made = reporter(ACTIVE)
    made.record_event(TWO.id, STANDBY, 10.0)
    made.resend()
    assert made.delay(10.0) == 0.0
    assert take(made, 10.0) == [(ONE.id, ACTIVE), (TWO.id, STANDBY)]
    assert take(made, 12.0) == [], "the batch has nothing new"


def test_role_of_a_router_that_is_delivered_again_is_sent_again():
    made = reporter(ACTIVE)
    made.touch([ONE.id, TWO.id])
    (report,) = made.take({ONE.id: evolve(ONE, revision=4)}.get, 10.0)
    assert (report.revision, report.role) == (4, ACTIVE)


def test_new_revision_alone_is_no_reason_to_send_a_role():
    made = reporter(ACTIVE)
    assert take(made, 200.0, {ONE.id: evolve(ONE, revision=4)}) == []
    assert made.delay(200.0) is None


def test_router_that_is_not_on_this_host_is_in_fault():
    made = reporter(ACTIVE)
    made.record_absent(ONE.id, 10.0)
    made.record_event(ONE.id, STANDBY, 10.5)  # late
    assert made.delay(11.0) == 1.0
    assert take(made, 12.0) == [(ONE.id, FAULT)]
    assert (made.count(FAULT), made.warnings()) == (0, {}), "its status says why"
    made.resend()
    assert take(made, 12.0) == [(ONE.id, FAULT)]


def test_router_that_is_on_this_host_again_has_the_role_of_the_driver():
    made = reporter(ACTIVE)
    made.record_absent(ONE.id, 10.0)

    def read():
        made.record_event(ONE.id, ACTIVE, 11.0)
        return STANDBY

    made.record_status(ONE.id, read, 11.0)
    assert take(made, 12.0) == [], "the source has this role"


def test_role_of_a_router_that_was_plain_is_sent_again():
    made = reporter(ACTIVE)
    made.discard(ONE.id)
    made.record_event(ONE.id, ACTIVE, 10.0)
    assert take(made, 12.0) == [(ONE.id, ACTIVE)]


def test_each_change_of_a_role_is_logged_once(caplog):
    caplog.set_level("INFO")
    made = reporter()
    made.record_event(ONE.id, ACTIVE, 10.0)
    made.record_event(ONE.id, ACTIVE, 10.0)
    made.record_status(ONE.id, lambda: ACTIVE, 10.0)
    made.record_event(ONE.id, FAULT, 11.0, "keepalived does not run")
    assert caplog.messages == [
        f"router {ONE.id}: its role is active, was unknown",
        f"router {ONE.id}: its role is fault, was active: keepalived does not run",
    ]


def test_router_without_a_role_here_is_discarded():
    made = reporter(ACTIVE)
    assert made.count(ACTIVE) == 1
    made.touch([ONE.id])
    assert take(made, 10.0, {}) == []
    assert made.count(ACTIVE) == 0
    made.resend()
    assert take(made, 10.0) == []
    made.record_event(TWO.id, ACTIVE, 10.0)
    made.discard(TWO.id)
    assert (take(made, 12.0), made.count(ACTIVE)) == ([], 0)


def test_routers_in_fault_are_a_warning():
    made = reporter(ACTIVE)
    assert made.warnings() == {}
    made.record_event(ONE.id, FAULT, 10.0)
    assert str(ONE.id) in made.warnings()["high availability"]


def test_reports_have_the_boot_and_the_time_of_the_role():
    made = RoleReporter("here", 2.0, UUID(int=9))

    def times(now):
        return [(each.boot.int, each.since) for each in made.take(ROUTERS.get, now)]

    made.record_event(ONE.id, STANDBY, 10.0)
    made.record_event(TWO.id, STANDBY, 10.0)
    assert times(12.0) == [(9, 10_000_000), (9, 10_000_001)], "no two changes are of one time"
    made.resend()
    assert times(13.0) == [(9, 10_000_000), (9, 10_000_001)], "the role is as old as before"
    made.record_event(ONE.id, ACTIVE, 20.0)
    assert times(22.0) == [(9, 20_000_000)]
