"""Programs that are started once they do their work, and what is said of those that run."""

from __future__ import annotations

import os
import queue
import signal
import sys
from pathlib import Path

import pytest
from attrs import evolve

from netfw.errors import BackendUnavailable, OperationRefused
from netfw.linux import netns
from netfw.linux.process import ProcessExited, ProcessKey, ProcessRespawned, Program, Timeouts
from netfw.linux.sockets.tcp_listeners import listeners, listeners_of
from netfw.testing.lab.wait import wait_until

pytestmark = pytest.mark.spec("DRV-45")

KEY = ProcessKey("sleeper", "one")
LISTEN = """
import socket, sys, time
time.sleep(0.1)
s = socket.create_server(("127.0.0.1", 7), reuse_port=False)
time.sleep(1000)
"""


def listens(pid: int) -> bool:
    return any(each.port == 7 for each in listeners_of(pid))


LISTENER = Program(argv=(sys.executable, "-c", LISTEN), ready=listens)


def in_namespace(program: Program, name: str) -> Program:
    return evolve(program, namespace=name)


def test_a_program_has_started_when_it_is_ready(supervisor, served):
    process = supervisor.start(KEY, in_namespace(LISTENER, served))
    assert {(str(each.address), each.port) for each in listeners(served)} == {("127.0.0.1", 7)}
    assert listens(process.pid)
    assert supervisor.start(KEY, in_namespace(LISTENER, served)).adopted


def test_one_that_ends_before_it_is_ready_was_refused_with_its_words(supervisor, served):
    supervisor.start(KEY, in_namespace(LISTENER, served))
    other = ProcessKey("sleeper", "two")
    with pytest.raises(OperationRefused, match="Address already in use"):
        supervisor.start(other, in_namespace(LISTENER, served))
    assert supervisor.present() == {KEY}


def test_one_that_never_gets_ready_is_ended(make_supervisor):
    supervisor = make_supervisor(timeouts=Timeouts(launch=0.2))
    never = Program(argv=("sleep", "1000"), ready=lambda _: False)
    with pytest.raises(OperationRefused, match=r"was not ready in 0.2 s and .*signal 9"):
        supervisor.start(KEY, never)
    assert supervisor.present() == frozenset()


def test_process_with_a_failing_ready_check_is_stopped(supervisor):
    seen: list[int] = []

    def unable(pid: int) -> bool:
        seen.append(pid)
        raise BackendUnavailable("too full to tell")

    with pytest.raises(BackendUnavailable):
        supervisor.start(KEY, Program(argv=("sleep", "1000"), ready=unable))
    assert not Path(f"/proc/{seen[0]}").exists()


def test_running_process_is_returned_with_its_program_and_namespace(
    make_supervisor, served, tmp_path
):
    program = in_namespace(LISTENER, served)
    first = make_supervisor()
    assert first.running(KEY) is None
    pid = first.start(KEY, program).pid
    for supervisor in (first, make_supervisor()):
        found = supervisor.running(KEY)
        assert (found.pid, found.digest) == (pid, program.digest())
        assert found.namespace == netns.identity(served)


def test_running_process_without_a_record_is_returned_too(make_supervisor, tmp_path):
    sleep = Program(argv=("sleep", "1000"))
    first = make_supervisor()
    pid = first.start(KEY, sleep).pid
    (tmp_path / "pids" / "sleeper" / "one.json").unlink()
    assert first.running(KEY).pid == pid
    assert first.running(KEY).digest == ""
    second = make_supervisor()
    assert second.running(KEY).pid == pid
    assert second.running(KEY).digest == sleep.digest()
    assert second.start(KEY, sleep).adopted


def test_death_is_reported_when_running_is_read_first(supervisor, events):
    process = supervisor.start(KEY, Program(argv=("sleep", "1000")))
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: (supervisor.running(KEY), not events.empty())[1])
    assert isinstance(events.get(timeout=60), ProcessExited)
    assert isinstance(events.get(timeout=60), ProcessRespawned)


def test_what_another_supervisor_ended_is_not_started_again(make_supervisor, events):
    sleep, other = Program(argv=("sleep", "1000")), Program(argv=("sleep", "2000"))
    first, second = make_supervisor(), make_supervisor(sink=lambda _: None)
    first.start(KEY, sleep)
    second.stop(KEY)
    assert isinstance(events.get(timeout=60), ProcessExited)
    first.start(KEY, sleep)
    pid = second.start(KEY, other).pid
    assert isinstance(events.get(timeout=60), ProcessExited)
    with pytest.raises(queue.Empty):
        events.get(timeout=0.5)  # twenty times the delay of a respawn
    assert second.pid(KEY) == pid
    second.stop(KEY)
    assert first.present() == frozenset()
