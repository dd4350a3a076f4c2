"""The rescheduler: a defect in one reconciler ends neither the others nor the thread."""

from __future__ import annotations

import pytest

from netfw.server.scheduling.rescheduler import Rescheduler
from netfw.testing.lab.wait import wait_until


def test_an_internal_error_of_one_reconciler_ends_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    passes: list[int] = []

    def fail() -> int:
        raise KeyError("a defect of a vendor's plugin")

    def succeed() -> int:
        passes.append(1)
        return 1

    rescheduler = Rescheduler([fail, succeed], interval=0.01)
    rescheduler.start()
    try:
        wait_until(lambda: len(passes) >= 3)
    finally:
        rescheduler.close()
    assert "internal error" in caplog.text
