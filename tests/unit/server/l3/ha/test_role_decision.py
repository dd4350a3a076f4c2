"""The active host of a highly available router, by the roles of its hosts."""

from __future__ import annotations

import pytest

from netfw.model.router import HaRole
from netfw.server.l3.ha.role_decision import decide_active_host
from netfw.server.scheduling.ha_states import ha_state

A, S, F = HaRole.ACTIVE, HaRole.STANDBY, HaRole.FAULT


@pytest.mark.spec("L3-42")
@pytest.mark.parametrize(
    ("roles", "former", "last", "expected"),
    [
        ({}, "", None, ""),
        ({"a": S, "b": S}, "", None, ""),
        ({"a": A, "b": S}, "", "a", "a"),
        ({"a": A, "b": A}, "a", "b", "b"),
        ({"a": A, "b": A}, "b", None, "b"),
        ({"a": S, "b": A}, "a", None, "b"),
        ({"a": S, "b": S}, "a", None, "a"),
        ({"a": F, "b": S}, "a", None, "a"),
        ({"b": S}, "gone", None, ""),
        ({"b": A}, "gone", None, "b"),
        ({"gone": A, "b": S}, "gone", "gone", ""),
    ],
)
def test_ports_are_bound_to_the_host_that_became_active_last(
    roles: dict[str, HaRole], former: str, last: str | None, expected: str
) -> None:
    assert decide_active_host({"a", "b"}, roles, former, last) == expected


@pytest.mark.spec("L3-42")
@pytest.mark.parametrize(
    ("roles", "former", "last", "expected"),
    [
        ({"a": A, "b": A}, "a", None, "b"),
        ({"a": A, "b": A}, "", None, "b"),
        ({"a": A, "b": S}, "", None, ""),
        ({"a": A, "b": S}, "a", None, "a"),
        ({"a": A, "b": A}, "b", "a", "a"),
    ],
)
def test_the_role_of_a_dead_host_counts_only_when_it_reports(
    roles: dict[str, HaRole], former: str, last: str | None, expected: str
) -> None:
    assert decide_active_host({"a", "b"}, roles, former, last, dead={"a"}) == expected


@pytest.mark.spec("API-18")
def test_the_state_of_a_dead_agent_and_before_the_first_report_is_unknown() -> None:
    assert [ha_state(role, alive=True) for role in (A, S, F, None)] == [
        "active", "standby", "standby", "unknown",
    ]  # fmt: skip
    assert {ha_state(role, alive=False) for role in (A, S, F, None)} == {"unknown"}
