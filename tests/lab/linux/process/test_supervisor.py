"""The supervisor with real processes: starting and stopping them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from netfw.errors import BackendBroken, ConfigError, NotFound, OperationRefused
from netfw.linux import netns
from netfw.linux.process import (
    ProcessKey,
    Program,
    Timeouts,
)
from netfw.testing.lab.wait import wait_until
from tests.lab.linux.process.process_observer import running, state

pytestmark = pytest.mark.spec("DRV-45")


KEY = ProcessKey("sleeper", "one")


SLEEP = Program(argv=("sleep", "1000"))


def test_a_program_runs_until_it_is_stopped(supervisor, tmp_path):
    process = supervisor.start(KEY, SLEEP)
    assert running("sleep", "1000") == [process.pid]
    assert (tmp_path / "pids/sleeper/one.pid").read_text() == f"{process.pid}\n"
    assert supervisor.present() == {KEY}
    supervisor.stop(KEY)
    assert state(process.pid) is None
    assert supervisor.present() == frozenset()
    assert list((tmp_path / "pids/sleeper").iterdir()) == []


def test_starting_twice_is_starting_once(supervisor):
    first = supervisor.start(KEY, SLEEP)
    second = supervisor.start(KEY, SLEEP)
    assert (second.pid, second.adopted) == (first.pid, True)
    assert running("sleep", "1000") == [first.pid]


def test_stopping_what_does_not_run_succeeds(supervisor):
    supervisor.stop(KEY)
    supervisor.start(KEY, SLEEP)
    supervisor.stop(KEY)
    supervisor.stop(KEY)


def test_many_threads_that_start_one_key_start_one_process(supervisor):
    threads = [threading.Thread(target=supervisor.start, args=(KEY, SLEEP)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(running("sleep", "1000")) == 1


def test_a_changed_program_takes_the_place_of_the_old_one(supervisor):
    old = supervisor.start(KEY, SLEEP)
    new = supervisor.start(KEY, Program(argv=("sleep", "2000")))
    assert not new.adopted
    assert state(old.pid) is None
    assert running("sleep", "2000") == [new.pid]


def test_a_program_runs_in_its_namespace_with_its_environment_and_log(supervisor, served, tmp_path):
    log = tmp_path / "words"
    program = Program(
        argv=("sh", "-c", "echo $GREETING; ip -o link; exec sleep 1000"),
        namespace=served,
        environment={"GREETING": "hello"},
        log=log,
    )
    process = supervisor.start(KEY, program)
    wait_until(lambda: "LOOPBACK" in log.read_text())
    assert log.read_text().startswith("hello\n1: lo:")
    assert netns.identity(netns.of_process(process.pid)) == netns.identity(served)


ONE_USER = Path("/proc/self/uid_map").read_text().split()[2] == "1"


@pytest.mark.skipif(ONE_USER, reason="this user namespace has one user only")
def test_a_program_runs_as_another_user(supervisor):
    process = supervisor.start(KEY, Program(argv=("sleep", "1000"), user="nobody"))
    # The process becomes that user a moment after it was started.
    wait_until(lambda: Path(f"/proc/{process.pid}").stat().st_uid != 0)
    with pytest.raises(ConfigError, match="nosuchuser"):
        supervisor.start(ProcessKey("a", "b"), Program(argv=("sleep", "1"), user="nosuchuser"))


def test_a_program_leads_a_session_and_has_no_descriptor_of_ours(supervisor):
    process = supervisor.start(KEY, SLEEP)
    assert os.getsid(process.pid) == process.pid
    descriptors = f"/proc/{process.pid}/fd"  # while it is loaded, also that of a library
    wait_until(lambda: sorted(os.listdir(descriptors)) == ["0", "1", "2"], "its own descriptors")


def test_a_start_that_dies_at_once_says_its_last_words(make_supervisor):
    supervisor = make_supervisor(timeouts=Timeouts(settle=60))
    program = Program(argv=("sh", "-c", "echo 'bad option --frob' >&2; exit 3"))
    with pytest.raises(OperationRefused, match="status 3: bad option --frob"):
        supervisor.start(KEY, program)
    assert supervisor.present() == frozenset()


def test_a_missing_command_or_namespace_is_said(supervisor):
    with pytest.raises(BackendBroken, match="apt install keepalived"):
        supervisor.start(KEY, Program(argv=("keepalived-not-here",)))
    with pytest.raises(NotFound, match="nowhere"):
        supervisor.start(KEY, Program(argv=("sleep", "1"), namespace="nowhere"))


def test_process_that_ignores_sigterm_is_killed(supervisor):
    process = supervisor.start(
        KEY, Program(argv=("sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"))
    )
    supervisor.stop(KEY)
    assert state(process.pid) is None
