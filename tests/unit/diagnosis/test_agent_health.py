"""What is decided from a status file and the process that has its pid."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from netfw.agents.common.status import AgentStatus
from netfw.diagnosis.agent_health import AgentState, StatusRecord, assess_agent

NOW = 1_800_000_000.0


def record(started: float | None = NOW - 900, age: float = 1.0, **fields: Any) -> StatusRecord:
    status = AgentStatus(**{"binary": "netfw-ovs-agent", "host": "h1", "ready": True, **fields})
    at = datetime.fromtimestamp(NOW - age, UTC).isoformat(timespec="milliseconds")
    content = {**status.to_dict(), "errors_since": {}, "pid": 7, "written_at": at}
    return StatusRecord(path="/s/netfw-ovs-agent.json", content=content, process_started=started)


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (record(), AgentState.READY),
        (record(ready=False), AgentState.CONVERGING),
        (record(ready=False, waiting={"port 1": "its device"}), AgentState.WAITING),
        (record(waiting={"port 1": "its device"}), AgentState.READY),
        (record(ready=False, degraded={"port 1": "no device"}), AgentState.DEGRADED),
        (record(errors={"pull": "the server is away"}), AgentState.FAILING),
        (record(age=100.0), AgentState.STALE),
        (record(age=-1.0), AgentState.READY),
        (record(age=-3600.0), AgentState.STALE),
        (record(age=-3600.0, started=None), AgentState.DEAD),
        (record(started=None), AgentState.DEAD),
        (record(started=NOW - 50, age=100.0), AgentState.DEAD),
    ],
)
def test_state_of_an_agent(found: StatusRecord, state: AgentState) -> None:
    assert assess_agent(found, NOW).state is state


def test_every_reason_is_a_sentence_that_names_its_key() -> None:
    found = record(
        started=None,
        errors={"pull": "away"},
        degraded={"port 1": "broken"},
        waiting={"port 2": "x"},
    )
    first, *others = assess_agent(found, NOW).reasons
    assert first.startswith("process 7, which wrote the status 1 s ago, is gone")
    assert others == [
        "error in pull: away",
        "port 1 failed, and is retried: broken",
        "port 2 waits: x",
    ]


def test_status_of_the_future_has_no_age_and_a_sentence() -> None:
    health = assess_agent(record(age=-3600.0), NOW)
    assert health.age is None
    assert health.reasons == (
        "process 7 runs, and its status is dated 3600 s ahead of this host's clock, which was set "
        "back: how old it is cannot be said; the next heartbeat of an agent that works corrects it",
    )
    dead = assess_agent(record(age=-3600.0, started=None), NOW)
    assert dead.age is None
    when = "at a time that this host's clock has not reached"
    assert dead.reasons[0].startswith(f"process 7, which wrote the status {when}, is gone")


def test_warnings_are_no_reason() -> None:
    health = assess_agent(record(warnings={"no firewall_driver": "3 ports"}), NOW)
    assert (health.state, health.reasons) == (AgentState.READY, ())
    assert health.warnings == ("no firewall_driver: 3 ports",)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"pid": "x"},
        {**(record().content or {}), "degraded": 3},
        {**(record().content or {}), "written_at": "yesterday"},
        {**(record().content or {}), "lag": float("inf")},
        {**(record().content or {}), "counts": {"ports": float("inf")}},
    ],
)
def test_file_of_another_kind_is_unreadable(content: dict[str, Any]) -> None:
    health = assess_agent(StatusRecord(path="/s/netfw-x.json", content=content), NOW)
    assert (health.agent, health.state) == ("netfw-x", AgentState.UNREADABLE)
    assert "no status of an agent" in health.reasons[0]


def test_problem_of_reading_is_the_reason() -> None:
    health = assess_agent(StatusRecord(path="/s/a.json", problem="it is not JSON"), NOW)
    assert health.reasons == ("/s/a.json: it is not JSON",)
