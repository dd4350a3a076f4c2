"""Reasons that operators read."""

from __future__ import annotations

from uuid import UUID

from netfw.drivers.values.reports import StatusReport
from netfw.drivers.values.subscription import Service
from netfw.model.resource import Kind, Ref
from netfw.model.values.common_fields import Status
from netfw.server.agents.status_reasons import MAX_REASONS, render_reason


def report(host: str, status: Status, reason: str, service: Service = Service.L2) -> StatusReport:
    return StatusReport(
        ref=Ref(Kind.PORT, UUID(int=1)),
        revision=1,
        host=host,
        service=service,
        status=status,
        reason=reason,
    )


def test_a_reason_names_the_hosts_that_give_one() -> None:
    bad = (
        report("b", Status.ERROR, "no space left"),
        report("a", Status.DOWN, "not plugged"),
        report("a", Status.DEGRADED, "no dnsmasq", Service.DHCP),
    )
    good = report("c", Status.ACTIVE, "late"), report("d", Status.DOWN, "")
    expected = "a: no dnsmasq; a: not plugged; b: no space left"
    assert render_reason((*bad, *good)) == expected
    assert render_reason(good) is None


def test_many_reasons_are_counted() -> None:
    reports = [report(f"h{n:02}", Status.DOWN, "lost") for n in range(MAX_REASONS + 3)]
    text = render_reason(reports)
    assert text is not None
    assert text.endswith("h07: lost; 3 more")


def test_a_reason_does_not_control_a_terminal() -> None:
    assert render_reason([report("a", Status.DOWN, "no\n\x1b[2J such\x00device\t")]) == (
        "a: no [2J suchdevice"
    )
