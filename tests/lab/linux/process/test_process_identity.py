"""Who a process is, whatever it calls itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from netfw.linux.process.identity import observe
from netfw.testing.lab.registry import identify
from tests.lab.linux.process.process_observer import state

NAMES = [b"sl\xff", b"sl) Z 1", b"sl\n1 2 3", b"plain"]


@pytest.fixture(params=NAMES, ids=repr)
def odd(request, tmp_path) -> Iterator[subprocess.Popen]:
    program = os.fsencode(tmp_path) + b"/" + request.param
    shutil.copy(shutil.which("sleep"), program)
    with subprocess.Popen([program, "1000"]) as process:
        yield process
        process.kill()


def test_a_process_of_any_name_is_observed(odd):
    assert state(odd.pid) in ("S", "R", "D")
    assert observe(odd.pid).pid == odd.pid


def test_a_lab_is_known_by_its_process_whatever_that_is_called(odd):
    record = identify("lab", odd.pid)
    assert record.alive()
    odd.kill()
    odd.wait()
    assert not record.alive()


def test_a_process_that_ended_and_was_not_waited_for_is_no_lab(odd):
    record = identify("lab", odd.pid)
    odd.kill()
    os.waitid(os.P_PID, odd.pid, os.WEXITED | os.WNOWAIT)
    assert not record.alive()
