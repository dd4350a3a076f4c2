"""Children that outlive the supervised process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from netfw.linux.process import ProcessExited, ProcessKey, ProcessRespawned, Program, Timeouts
from netfw.testing.lab.wait import wait_until
from tests.lab.linux.process.process_observer import state

pytestmark = pytest.mark.spec("DRV-45")

KEY, OTHER = ProcessKey("parent", "one"), ProcessKey("parent", "two")
SLEEP = Program(argv=("sleep", "1001"))


def parent_of(path: Path) -> Program:
    """Return a program with a child; it does not start beside the pid file of a running process."""
    check = f"test -f {path} && kill -0 $(cat {path}) && exit 1"
    child = f"sleep 1001 & echo $! > {path}.new; mv {path}.new {path}; wait"
    ready = path.exists
    return Program(
        argv=("sh", "-c", f"{check}; {child}"),
        own_pid_files=(path,),
        ready=lambda pid: ready(),
    )


def is_gone(pid: int) -> bool:
    return state(pid) in (None, "Z")


@pytest.mark.parametrize("number", [0, signal.SIGSTOP])
def test_child_of_a_killed_process_is_ended_before_the_next_start(
    supervisor, events, tmp_path, number
):
    path = tmp_path / "child.pid"
    process = supervisor.start(KEY, parent_of(path))
    child = int(path.read_text())
    os.kill(child, number)
    os.kill(process.pid, signal.SIGKILL)
    assert isinstance(events.get(timeout=60), ProcessExited)
    assert isinstance(events.get(timeout=60), ProcessRespawned)
    assert is_gone(child)
    assert int(path.read_text()) != child


@pytest.mark.parametrize("is_alive", [True, False])
def test_children_end_with_their_process(make_supervisor, tmp_path, is_alive):
    # A new supervisor, which did not start it, ends them too.
    supervisor = make_supervisor()
    path = supervisor.pid_path(KEY).with_name("one.child.pid")
    process = supervisor.start(KEY, parent_of(path))
    child = int(path.read_text())
    supervisor.close()
    if not is_alive:
        os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: is_gone(process.pid))
    make_supervisor().stop(KEY)
    assert is_gone(process.pid)
    assert is_gone(child)
    assert not path.exists()


def test_process_that_has_the_pid_of_a_former_child_is_left_alone(supervisor, tmp_path):
    path = tmp_path / "child.pid"
    foreign = supervisor.start(OTHER, SLEEP).pid
    path.write_text(f"{foreign}\n")
    supervisor.start(KEY, parent_of(path))
    assert int(path.read_text()) != foreign
    supervisor.stop(KEY)
    assert not is_gone(foreign)


def test_process_that_has_released_everything_is_killed(make_supervisor, tmp_path):
    supervisor = make_supervisor(timeouts=Timeouts(stop=60))
    path = tmp_path / "child.pid"
    ignore = Program(argv=("sh", "-c", f"trap '' TERM; touch {path}; exec sleep 1001"))
    process = supervisor.start(KEY, ignore)
    wait_until(path.exists)
    checks: list[bool] = []

    def is_released() -> bool:
        checks.append(is_gone(process.pid))
        return len(checks) == 3

    supervisor.stop(KEY, is_released)
    assert checks == [False] * 3
    assert is_gone(process.pid)
