"""Texts that no validation has seen: reasons of hosts, errors of drivers."""

from __future__ import annotations

import pytest
from attrs import evolve

from netfw.drivers.server.change import Change
from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service
from netfw.model.resource import Kind, Ref
from netfw.model.values.common_fields import Status
from netfw.server.db import Database
from netfw.server.db.outbox import Lane
from tests.lab.server.db.samples import network, uid

ODD = "link \udcff\0 \u00e9"
"""What `surrogateescape` makes of a byte that is no text, NUL, and a letter."""
STORED = "link ?? \u00e9"


@pytest.mark.spec("RPC-03")
def test_a_report_with_any_reason_is_stored(database: Database) -> None:
    report = StatusReport(
        ref=Ref(Kind.PORT, uid(1)),
        revision=1,
        host="h",
        service=Service.L2,
        status=Status.ERROR,
        reason=ODD,
    )
    other = evolve(report, ref=Ref(Kind.PORT, uid(2)), reason="")
    database.transaction(lambda tx: tx.statuses.record([report, other], {}))
    known = database.transaction(lambda tx: tx.statuses.of([report.ref, other.ref]))
    stored = evolve(report, reason=STORED)
    assert known == {report.ref: (stored,), other.ref: (other,)}
    assert database.transaction(lambda tx: tx.statuses.record([report], known)) == 0


@pytest.mark.spec("ML2-03")
def test_a_failure_with_any_text_is_recorded(database: Database) -> None:
    lane = Lane(driver="d", name="x")
    database.transaction(
        lambda tx: tx.outbox.note(lane, Change(before=None, after=network(revision=1)))
    )
    database.transaction(lambda tx: tx.outbox.claim(lane, "me", 10))
    database.transaction(lambda tx: tx.outbox.fail(tx.outbox.waiting(lane, 1), ODD))
    database.transaction(lambda tx: tx.outbox.pause(lane, "me", 10, ODD))
    failures = database.transaction(lambda tx: tx.outbox.failures())
    assert [each.error for each in failures] == [STORED, STORED]
