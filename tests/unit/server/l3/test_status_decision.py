"""Statuses of routers and floating IPs, decided from values."""

from __future__ import annotations

import pytest

from netfw.model.values.common_fields import Status
from netfw.server.l3.status_decision import decide_floating_ip_status, decide_router_status

pytestmark = pytest.mark.spec("API-18")

ACTIVE, BUILD, DOWN, ERROR = Status.ACTIVE, Status.BUILD, Status.DOWN, Status.ERROR


@pytest.mark.parametrize(
    ("hosts", "dead", "reports", "router", "floating_ip"),
    [
        ("", "", {}, DOWN, DOWN),
        ("a", "", {}, BUILD, DOWN),
        ("a", "a", {}, DOWN, DOWN),
        ("a", "", {"a": ACTIVE}, ACTIVE, ACTIVE),
        ("a", "", {"a": ERROR}, ERROR, ERROR),
        ("a", "", {"a": DOWN}, DOWN, DOWN),
        ("a", "", {"a": Status.DEGRADED}, Status.DEGRADED, DOWN),
        ("a", "a", {"a": ACTIVE}, DOWN, DOWN),
        ("a", "", {"b": ACTIVE}, BUILD, DOWN),
        ("ab", "", {"a": ERROR, "b": ACTIVE}, ACTIVE, ACTIVE),
        ("ab", "", {"a": ERROR, "b": DOWN}, ERROR, ERROR),
        ("ab", "b", {"a": DOWN, "b": ACTIVE}, DOWN, DOWN),
        ("ab", "a", {"a": ACTIVE}, BUILD, DOWN),
        ("ab", "ab", {"a": ACTIVE, "b": ACTIVE}, DOWN, DOWN),
    ],
)
def test_the_best_report_of_live_hosts_is_the_status(
    hosts: str, dead: str, reports: dict[str, Status], router: Status, floating_ip: Status
) -> None:
    serving, silent = frozenset(hosts), frozenset(dead)
    assert decide_router_status(serving, silent, reports, needs_host=True) is router
    assert decide_floating_ip_status(serving, silent, reports) is floating_ip


def test_a_router_without_ports_needs_no_host() -> None:
    assert decide_router_status(frozenset(), frozenset(), {}, needs_host=False) is ACTIVE
