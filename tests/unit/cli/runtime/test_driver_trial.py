"""The time that a driver takes, on a machine that is busy with other work."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from netfw.cli.runtime import driver_trial
from netfw.cli.runtime.driver_trial import own_time

RIVALS = 4
WORK = 0.5
"""Seconds of computing."""


@pytest.fixture
def one_busy_core() -> Iterator[None]:
    """Put this process on one core with others that compute all the time."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    with ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, cores)
        for _ in range(RIVALS):
            rival = stack.enter_context(
                subprocess.Popen([sys.executable, "-c", "while True: pass"])
            )
            stack.callback(rival.kill)
        yield


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.spec("DRV-13")
@pytest.mark.usefixtures("one_busy_core")
def test_time_without_a_core_does_not_count() -> None:
    began, own_began, computed = time.monotonic(), own_time(), time.thread_time()
    while time.thread_time() - computed < WORK:
        pass
    elapsed, own = time.monotonic() - began, own_time() - own_began
    assert own >= WORK
    assert own - WORK < (elapsed - WORK) / 2


def test_kernel_without_statistics_counts_all_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for content in (None, "", "x y z"):
        path = tmp_path / "schedstat"
        if content is not None:
            path.write_text(content)
        monkeypatch.setattr(driver_trial, "SCHEDULER_STATISTICS", path)
        before = time.monotonic()
        assert before <= own_time() <= time.monotonic()
