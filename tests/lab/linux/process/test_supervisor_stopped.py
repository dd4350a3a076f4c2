"""Processes that a signal stopped."""

from __future__ import annotations

import os
import signal

import pytest

from netfw.linux.process import ProcessExited, ProcessKey, ProcessRespawned, Program, Timeouts
from netfw.linux.process.suspended_processes import CheckedProcess, StopDetector
from netfw.testing.lab.wait import wait_until
from tests.lab.linux.process.process_observer import state

pytestmark = pytest.mark.spec("DRV-45")

KEY, OTHER = ProcessKey("sleeper", "one"), ProcessKey("sleeper", "two")
SLEEP = Program(argv=("sleep", "1000"))


@pytest.mark.parametrize("adopted", [False, True])
def test_a_stopped_process_is_replaced(make_supervisor, events, adopted):
    # This includes a process that was stopped before the agent was started.
    supervisor = make_supervisor(timeouts=Timeouts(stopped=0.05))
    process, other = supervisor.start(KEY, SLEEP), supervisor.start(OTHER, SLEEP)
    if adopted:
        supervisor.close()
    os.kill(process.pid, signal.SIGSTOP)
    if adopted:
        supervisor = make_supervisor(timeouts=Timeouts(stopped=0.05))
        assert supervisor.start(KEY, SLEEP).adopted
        assert supervisor.start(OTHER, SLEEP).adopted
    died, again = events.get(timeout=60), events.get(timeout=60)
    assert isinstance(died, ProcessExited)
    assert died.key == KEY
    assert isinstance(again, ProcessRespawned)
    assert state(again.pid) != "T"
    assert supervisor.pid(OTHER) == other.pid


def test_a_process_with_a_stopped_child_is_replaced_with_it(make_supervisor, events, tmp_path):
    path = tmp_path / "child.pid"
    script = f"sleep 1000 & echo $! > {path}.new; mv {path}.new {path}; wait"
    program = Program(argv=("sh", "-c", script), own_pid_files=(path,))
    supervisor = make_supervisor(timeouts=Timeouts(stopped=0.05))
    supervisor.start(KEY, program)
    wait_until(path.exists)
    child = int(path.read_text())
    os.kill(child, signal.SIGSTOP)
    died, again = events.get(timeout=60), events.get(timeout=60)
    assert isinstance(died, ProcessExited)
    assert isinstance(again, ProcessRespawned)
    wait_until(lambda: path.exists() and int(path.read_text()) != child)
    wait_until(lambda: state(child) in (None, "Z"))


def test_a_stopped_process_that_has_the_pid_of_a_former_child_is_left_alone(
    make_supervisor, tmp_path
):
    path = tmp_path / "child.pid"
    supervisor = make_supervisor()
    supervisor.start(KEY, SLEEP)
    foreign = supervisor.start(OTHER, SLEEP).pid
    path.write_text(f"{foreign}\n")
    os.kill(foreign, signal.SIGSTOP)
    wait_until(lambda: state(foreign) == "T")
    checked = {KEY: CheckedProcess(supervisor._states[KEY].handle, (path,))}
    detector = StopDetector()
    assert detector.check(checked) == detector.check(checked) == {}
    checked[KEY].kill()
    assert state(foreign) == "T"


def test_a_process_that_is_continued_between_two_checks_is_left_alone(supervisor, make_supervisor):
    process = supervisor.start(KEY, SLEEP)
    handles = {KEY: CheckedProcess(supervisor._states[KEY].handle)}
    detector = StopDetector()

    def stop() -> None:
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: state(process.pid) == "T")

    stop()
    assert detector.check(handles) == {}
    os.kill(process.pid, signal.SIGCONT)
    wait_until(lambda: state(process.pid) != "T")
    assert detector.check(handles) == {}
    stop()
    assert detector.check(handles) == {}
    assert detector.check(handles) == handles
