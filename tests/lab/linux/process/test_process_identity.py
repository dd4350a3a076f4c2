"""Who a process is, whatever it calls itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from signal import Signals

import pytest

from netfw.linux.process.identity import handles, observe
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


def test_signals_that_a_process_catches_or_blocks_do_not_end_it():
    wait = (
        "import signal; signal.signal(1, print); signal.pthread_sigmask(0, [10]); print(flush=1);"
    )
    words = [sys.executable, "-c", f"{wait} signal.pause()"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = [number for number in Signals if handles(process.pid, number)]
        process.kill()
    assert {Signals.SIGHUP, Signals.SIGUSR1} <= set(found)
    assert Signals.SIGUSR2 not in found
    assert not handles(process.pid, Signals.SIGHUP), "it is gone"
