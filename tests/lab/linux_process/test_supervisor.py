"""The supervisor with real processes."""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
from process_watching import eventually, running

from netfw.errors import BackendBroken, ConfigError, NotFound, OperationRefused
from netfw.linux import netns
from netfw.linux.process import (
    Backoff,
    OnDeath,
    Patience,
    ProcessDied,
    ProcessKey,
    ProcessRespawned,
    Program,
    RespawnFailed,
)
from netfw.linux.process.identity import stat

pytestmark = pytest.mark.spec("DRV-45")

KEY = ProcessKey("sleeper", "one")
SLEEP = Program(argv=("sleep", "1000"))


def state(pid: int) -> str | None:
    try:
        return stat(pid)[0]
    except OSError:
        return None


def test_a_program_runs_until_it_is_stopped(supervisor, tmp_path):
    process = supervisor.start(KEY, SLEEP)
    assert running("sleep", "1000") == [process.pid]
    assert (tmp_path / "pids/sleeper/one.pid").read_text() == f"{process.pid}\n"
    assert supervisor.held() == {KEY}
    supervisor.stop(KEY)
    assert state(process.pid) is None
    assert supervisor.held() == frozenset()
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
    eventually(lambda: "LOOPBACK" in log.read_text())
    assert log.read_text().startswith("hello\n1: lo:")
    assert netns.identity(netns.of_process(process.pid)) == netns.identity(served)


ONE_USER = Path("/proc/self/uid_map").read_text().split()[2] == "1"


@pytest.mark.skipif(ONE_USER, reason="this user namespace has one user only")
def test_a_program_runs_as_another_user(supervisor):
    process = supervisor.start(KEY, Program(argv=("sleep", "1000"), user="nobody"))
    assert Path(f"/proc/{process.pid}").stat().st_uid != 0
    with pytest.raises(ConfigError, match="nosuchuser"):
        supervisor.start(ProcessKey("a", "b"), Program(argv=("sleep", "1"), user="nosuchuser"))


def test_a_program_leads_a_session_and_has_no_descriptor_of_ours(supervisor):
    process = supervisor.start(KEY, SLEEP)
    assert os.getsid(process.pid) == process.pid
    assert sorted(os.listdir(f"/proc/{process.pid}/fd")) == ["0", "1", "2"]


def test_a_start_that_dies_at_once_says_its_last_words(supervisor):
    program = Program(argv=("sh", "-c", "echo 'bad option --frob' >&2; exit 3"))
    with pytest.raises(OperationRefused, match="status 3: bad option --frob"):
        supervisor.start(KEY, program)
    assert supervisor.held() == frozenset()


def test_a_missing_command_or_namespace_is_said(supervisor):
    with pytest.raises(BackendBroken, match="apt install keepalived"):
        supervisor.start(KEY, Program(argv=("keepalived-not-here",)))
    with pytest.raises(NotFound, match="nowhere"):
        supervisor.start(KEY, Program(argv=("sleep", "1"), namespace="nowhere"))


def test_who_dies_is_started_again_and_the_owner_is_told(supervisor, events):
    process = supervisor.start(KEY, SLEEP)
    os.kill(process.pid, signal.SIGKILL)
    died, again = events.get(timeout=10), events.get(timeout=10)
    assert isinstance(died, ProcessDied)
    assert died.reason == "sleeper/one was ended by signal 9 (Killed)"
    assert isinstance(again, ProcessRespawned)
    assert running("sleep", "1000") == [again.pid] != [process.pid]
    assert supervisor.pid(KEY) == again.pid
    assert state(process.pid) is None, "a zombie was left"


def test_the_last_words_of_who_dies_are_told(make_supervisor, events):
    supervisor = make_supervisor(patience=Patience(settle=0))
    supervisor.start(KEY, Program(argv=("sh", "-c", "sleep 0.1; echo out of cheese; exit 4")))
    died = events.get(timeout=10)
    assert (died.reason, died.tail) == ("sleeper/one ended with status 4", "out of cheese")


def test_who_keeps_dying_is_started_less_and_less_often(make_supervisor, events, monkeypatch):
    times = []
    monkeypatch.setattr(events, "put", lambda event: times.append((time.monotonic(), event)))
    backoff = Backoff(first=0.05, most=0.2, steady=30)
    supervisor = make_supervisor(backoff=backoff, patience=Patience(settle=0))
    supervisor.start(KEY, Program(argv=("sh", "-c", "sleep 0.01; exit 1")))
    eventually(lambda: len(times) >= 9)
    deaths = [when for when, event in times if isinstance(event, ProcessDied)]
    gaps = [after - before for before, after in pairwise(deaths)]
    for gap, delay in zip(gaps, (0.05, 0.1, 0.2, 0.2), strict=False):
        assert gap >= delay


def test_a_respawn_that_fails_is_tried_again(supervisor, events, tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o755)
    process = supervisor.start(KEY, Program(argv=(str(program),)))
    program.rename(tmp_path / "away")
    os.kill(process.pid, signal.SIGKILL)
    assert isinstance(events.get(timeout=10), ProcessDied)
    failed = events.get(timeout=10)
    assert isinstance(failed, RespawnFailed)
    assert "there is no command" in failed.reason
    (tmp_path / "away").rename(program)
    while not isinstance(event := events.get(timeout=10), ProcessRespawned):
        assert isinstance(event, RespawnFailed)
    assert supervisor.pid(KEY) == event.pid


def test_by_option_the_owner_is_only_told(supervisor, events):
    process = supervisor.start(KEY, Program(argv=("sleep", "1000"), on_death=OnDeath.TELL))
    os.kill(process.pid, signal.SIGTERM)
    assert events.get(timeout=10).on_death is OnDeath.TELL
    with pytest.raises(queue.Empty):
        events.get(timeout=0.3)
    assert running("sleep", "1000") == []


def test_processes_outlive_the_supervisor_and_are_adopted(make_supervisor, events):
    first = make_supervisor()
    process = first.start(KEY, SLEEP)
    first.close()
    second = make_supervisor()
    assert second.held() == {KEY}
    assert second.start(KEY, SLEEP) == type(process)(process.pid, adopted=True)
    os.kill(process.pid, signal.SIGKILL)
    assert isinstance(events.get(timeout=10), ProcessDied)
    assert isinstance(events.get(timeout=10), ProcessRespawned)


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


def test_who_ignores_term_is_killed(supervisor):
    process = supervisor.start(
        KEY, Program(argv=("sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"))
    )
    supervisor.stop(KEY)
    assert state(process.pid) is None


def test_a_program_is_stopped_by_its_own_command(make_supervisor, tmp_path, served):
    stop = ("sh", "-c", f"ip -o link > {tmp_path}/stopped; kill -USR1 $(cat {tmp_path}/pid)")
    program = Program(
        argv=("sh", "-c", f"echo $$ > {tmp_path}/pid; trap 'echo bye > {tmp_path}/bye; exit' USR1;"
              " while :; do sleep 0.02; done"),
        stop=stop,
        namespace=served,
    )  # fmt: skip
    first = make_supervisor()
    first.start(KEY, program)
    eventually((tmp_path / "pid").exists)
    first.close()
    make_supervisor().stop(KEY)
    assert (tmp_path / "bye").read_text() == "bye\n"
    assert (tmp_path / "stopped").read_text().startswith("1: lo")


@pytest.fixture
def bystander():
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("forged", ["started", "boot", "namespace", "argv", "only the pid file"])
def test_a_stale_record_of_a_pid_that_is_somebody_elses_harms_nobody(
    make_supervisor, tmp_path, bystander, forged
):
    """All of the identity but one part is that of the bystander, who must not be taken for ours."""
    first = make_supervisor()
    process = first.start(KEY, SLEEP)
    first.close()
    os.kill(process.pid, signal.SIGKILL)
    path = tmp_path / "pids/sleeper/one.json"
    record = json.loads(path.read_text())
    identity = record["identity"]
    eventually(lambda: state(process.pid) in (None, "Z"))
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
    assert second.held() == frozenset()
    second.stop(KEY)
    assert bystander.poll() is None
    new = second.start(KEY, SLEEP)
    assert new.pid != bystander.pid
    second.stop(KEY)
    assert bystander.poll() is None


@pytest.mark.parametrize("text", ["", "{", '{"identity": {}}', "12", "null", '{"identity": 5}'])
def test_a_half_written_record_is_no_record(make_supervisor, tmp_path, text):
    """The process is found again all the same, by the mark it carries."""
    first = make_supervisor()
    process = first.start(KEY, SLEEP)
    first.close()
    (tmp_path / "pids/sleeper/one.json").write_text(text)
    second = make_supervisor()
    assert second.held() == {KEY}
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


def test_killing_at_random_times_ends_in_one_process(supervisor, events):
    chance = random.Random(1)
    before = zombies()
    supervisor.start(KEY, SLEEP)
    for _ in range(30):
        for pid in running("sleep", "1000"):
            os.kill(pid, signal.SIGKILL)
        time.sleep(chance.uniform(0, 0.06))
        if chance.random() < 0.3:
            supervisor.start(KEY, SLEEP)
    eventually(lambda: supervisor.pid(KEY) is not None)
    time.sleep(0.3)
    eventually(lambda: running("sleep", "1000") == [supervisor.pid(KEY)])
    assert zombies() <= before


def zombies() -> set[int]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return {pid for pid in pids if state(pid) == "Z"}


def test_stopping_during_a_respawn_leaves_nothing_running(supervisor, events):
    chance = random.Random(2)
    for _ in range(25):
        process = supervisor.start(KEY, SLEEP)
        os.kill(process.pid, signal.SIGKILL)
        time.sleep(chance.uniform(0, 0.08))
        supervisor.stop(KEY)
        assert running("sleep", "1000") == []
    time.sleep(0.3)
    assert running("sleep", "1000") == []


def test_a_respawn_that_was_put_off_does_not_cut_a_later_one_short(make_supervisor, events):
    supervisor = make_supervisor(backoff=Backoff(first=0.6, most=0.6), patience=Patience(settle=0))
    first = supervisor.start(KEY, SLEEP)
    os.kill(first.pid, signal.SIGKILL)
    assert isinstance(events.get(timeout=10), ProcessDied)
    time.sleep(0.3)  # half of the delay
    second = supervisor.start(KEY, SLEEP)
    killed = time.monotonic()
    os.kill(second.pid, signal.SIGKILL)
    assert isinstance(events.get(timeout=10), ProcessDied)
    assert isinstance(events.get(timeout=10), ProcessRespawned)
    assert time.monotonic() - killed >= 0.6


def test_hundreds_of_processes_have_one_watcher(make_supervisor, events):
    before = threading.active_count()
    supervisor = make_supervisor(patience=Patience(settle=0))
    keys = [ProcessKey("sleeper", str(number)) for number in range(150)]
    pids = {key: supervisor.start(key, SLEEP).pid for key in keys}
    assert threading.active_count() == before + 1
    for key in keys[:50]:
        os.kill(pids[key], signal.SIGKILL)
    respawned = set()
    while len(respawned) < 50:
        event = events.get(timeout=10)
        if isinstance(event, ProcessRespawned):
            respawned.add(event.key)
    assert respawned == set(keys[:50])
    for key in keys:
        supervisor.stop(key)
    supervisor.close()
    assert threading.active_count() == before


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
    """Ten keys; the agent is killed while it starts them, again and again."""
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
