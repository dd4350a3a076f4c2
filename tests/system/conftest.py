"""What tests recorded, in the summary."""

from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tell what faults cost, also where that is allowed, and the points at which kills struck."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in report.user_properties:
                test = report.nodeid.rpartition("::")[2]
                terminalreporter.write_line(f"{test}: {name}: {value}")
