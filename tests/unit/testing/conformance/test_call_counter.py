"""The cost of a driver is that of its own calls."""

from __future__ import annotations

from netfw.testing.conformance.common.call_counter import count_calls, not_counted


def step() -> None:
    """Be called."""


def test_calls_of_the_suite_itself_are_not_counted() -> None:
    def work() -> None:
        step()
        not_counted(lambda: [step() for _ in range(1000)])
        step()

    assert count_calls(work, 100) < 20
