"""Processes that outlive the supervisor, and records that do not tell the truth."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from netfw.errors import NotFound
from netfw.linux import netns
from netfw.linux.process import (
    ProcessExited,
    ProcessKey,
    ProcessRespawned,
    Program,
    Timeouts,
)
from netfw.linux.process.identity import stat
from netfw.testing.lab.wait import wait_until
from tests.lab.linux.process.process_observer import running, state

pytestmark = pytest.mark.spec("DRV-45")


KEY = ProcessKey("sleeper", "one")


SLEEP = Program(argv=("sleep", "1000"))


def test_processes_outlive_the_supervisor_and_are_adopted(make_supervisor, events):
    first = make_supervisor()
    process = first.start(KEY, SLEEP)
    first.close()
    second = make_supervisor()
    assert second.present() == {KEY}
    assert second.start(KEY, SLEEP) == type(process)(process.pid, adopted=True)
    os.kill(process.pid, signal.SIGKILL)
    assert isinstance(events.get(timeout=60), ProcessExited)
    assert isinstance(events.get(timeout=60), ProcessRespawned)


def test_started_process_is_found_at_once_by_another_supervisor(make_supervisor):
    # On one processor, the kernel loads the program only when the caller waits.
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    try:
        first, second = (make_supervisor(timeouts=Timeouts(settle=0)) for _ in range(2))
        pid = first.start(KEY, SLEEP).pid
        assert second.pid(KEY) == pid
    finally:
        os.sched_setaffinity(0, processors)


def test_a_process_in_a_namespace_that_was_made_anew_is_started_anew(make_supervisor, served):
    program = Program(argv=("sleep", "1000"), namespace=served)
    first = make_supervisor()
    old = first.start(KEY, program)
    first.close()
    netns.delete(served)
    netns.create(served)
    new = make_supervisor().start(KEY, program)
    assert not new.adopted
    assert running("sleep", "1000") == [new.pid] != [old.pid]


def test_process_whose_namespace_is_gone_is_refused_without_a_descriptor_left(
    make_supervisor, served
):
    program = Program(argv=("sleep", "1000"), namespace=served)
    first = make_supervisor()
    process = first.start(KEY, program)
    first.close()
    second = make_supervisor()
    netns.delete(served)
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(NotFound):
        second.start(KEY, program)
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert running("sleep", "1000") == [process.pid]
    netns.create(served)


@pytest.fixture
def bystander():
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("forged", ["started", "boot", "namespace", "argv", "only the pid file"])
def test_stale_record_with_the_pid_of_another_process_leaves_it_alone(
    make_supervisor, tmp_path, bystander, forged
):
    # All parts of the identity but one are those of the bystander, which is not ours.
    first = make_supervisor()
    process = first.start(KEY, SLEEP)
    first.close()
    os.kill(process.pid, signal.SIGKILL)
    path = tmp_path / "pids/sleeper/one.json"
    record = json.loads(path.read_text())
    identity = record["identity"]
    wait_until(lambda: state(process.pid) in (None, "Z"))
    identity |= {"pid": bystander.pid, "started": stat(bystander.pid)[1]}
    if forged == "started":
        identity["started"] += 1
    elif forged == "boot":
        identity["boot"] = "another"
    elif forged == "namespace":
        identity["namespace"] = {"device": 1, "inode": 1}
    elif forged == "argv":
        identity["argv"] = ["dnsmasq"]
    if forged == "only the pid file":
        path.unlink()
    else:
        path.write_text(json.dumps(record))
    (tmp_path / "pids/sleeper/one.pid").write_text(f"{bystander.pid}\n")
    second = make_supervisor()
    assert second.present() == frozenset()
    second.stop(KEY)
    assert bystander.poll() is None
    new = second.start(KEY, SLEEP)
    assert new.pid != bystander.pid
    second.stop(KEY)
    assert bystander.poll() is None


@pytest.mark.parametrize("text", ["", "{", '{"identity": {}}', "12", "null", '{"identity": 5}'])
def test_a_half_written_record_is_no_record(make_supervisor, tmp_path, text):
    # The process is found again by the mark in its environment.
    first = make_supervisor()
    process = first.start(KEY, SLEEP)
    first.close()
    (tmp_path / "pids/sleeper/one.json").write_text(text)
    second = make_supervisor()
    assert second.present() == {KEY}
    assert second.start(KEY, SLEEP).pid == process.pid
    assert running("sleep", "1000") == [process.pid]


def test_an_unrecorded_process_can_be_stopped(make_supervisor, tmp_path):
    first = make_supervisor()
    first.start(KEY, SLEEP)
    first.close()
    (tmp_path / "pids/sleeper/one.json").unlink()
    make_supervisor().stop(KEY)
    assert running("sleep", "1000") == []


def test_a_process_of_another_directory_is_not_ours(make_supervisor, tmp_path, supervisor):
    supervisor.start(KEY, SLEEP)
    supervisor.close()
    (tmp_path / "pids").rename(tmp_path / "elsewhere")
    (tmp_path / "pids").mkdir()
    other = make_supervisor()
    other.stop(KEY)
    assert len(running("sleep", "1000")) == 1
    other.start(KEY, SLEEP)
    assert len(running("sleep", "1000")) == 2
    other.stop(KEY)
    other.close()
    (tmp_path / "pids").rename(tmp_path / "empty")
    (tmp_path / "elsewhere").rename(tmp_path / "pids")


AGENT = """
import sys
from pathlib import Path
from netfw.linux.process import *
supervisor = Supervisor(Path(sys.argv[1]), lambda event: None)
print("ready", flush=True)
for number in range(10):
    supervisor.start(ProcessKey("sleeper", str(number)), Program(argv=("sleep", "1000")))
    print(number, flush=True)
sys.stdin.read()
"""


def test_an_agent_killed_at_any_moment_leaves_nothing_double(make_supervisor, tmp_path):
    # The agent is killed again and again while it starts ten keys.
    chance = random.Random(3)
    for _ in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", AGENT, str(tmp_path / "pids")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as agent:  # fmt: skip
            assert agent.stdout is not None
            agent.stdout.readline()
            time.sleep(chance.uniform(0, 0.4))
            agent.kill()
    supervisor = make_supervisor()
    keys = [ProcessKey("sleeper", str(number)) for number in range(10)]
    pids = {supervisor.start(key, SLEEP).pid for key in keys}
    assert set(running("sleep", "1000")) == pids
    assert len(pids) == 10
    for key in keys:
        supervisor.stop(key)
    assert running("sleep", "1000") == []
