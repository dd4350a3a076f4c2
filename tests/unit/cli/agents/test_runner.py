"""What the service manager shows of an agent."""

from __future__ import annotations

import pytest

from netfw.agents.common.status import AgentStatus
from netfw.cli.agents.runner import summary


@pytest.mark.spec("DRV-48")
@pytest.mark.parametrize(
    ("status", "line"),
    [
        (AgentStatus(ready=True), "ready"),
        (AgentStatus(), "converging; degraded: 0, waiting: 0"),
        (
            AgentStatus(errors={"the source": "the server is away"}, degraded={"port 1": "x"}),
            "the source: the server is away",
        ),
        (
            AgentStatus(degraded={"port 1": "no such device"}, waiting={"port 2": "its network"}),
            "converging; degraded: 1, waiting: 1; port 1: no such device",
        ),
        (
            AgentStatus(waiting={"port 2": "its network"}),
            "converging; degraded: 0, waiting: 1; port 2: waits: its network",
        ),
    ],
)
def test_line_of_the_service_manager_has_the_first_reason(status: AgentStatus, line: str) -> None:
    assert summary(status) == line
