"""What tests recorded, in the summary."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.system.unit_privileges import WITHOUT, confine_agents


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tell what faults cost, also where that is allowed, and the points at which kills struck."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in report.user_properties:
                test = report.nodeid.rpartition("::")[2]
                terminalreporter.write_line(f"{test}: {name}: {value}")


@pytest.fixture(autouse=bool(os.environ.get("NETFW_UNIT_PRIVILEGES")))
def unit_privileges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run agents with the privileges of their units; with NETFW_UNIT_PRIVILEGES, in all tests."""
    confine_agents(monkeypatch, WITHOUT)
