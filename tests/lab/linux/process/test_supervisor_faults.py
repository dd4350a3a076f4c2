"""The supervisor among owners, discs and records that fail."""

from __future__ import annotations

import errno
import json
import os
import selectors
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from netfw.errors import BackendBroken, BackendUnavailable, NetfwError
from netfw.linux.process import (
    Backoff,
    OnDeath,
    ProcessExited,
    ProcessKey,
    ProcessRespawned,
    Program,
    RespawnFailed,
    Supervisor,
    Timeouts,
)
from netfw.testing.lab.wait import wait_until
from tests.descriptor_limit import few_descriptors
from tests.lab.linux.process.process_observer import running

pytestmark = pytest.mark.spec("DRV-45")

KEY = ProcessKey("sleeper", "one")
SLEEP = Program(argv=("sleep", "1000"))


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    return tmp_path / "pids"


def test_failing_event_sink_does_not_end_the_watch(make_supervisor, events, caplog):
    def failing_sink(event: object) -> None:
        events.put(event)
        raise KeyError("a defect of the owner")

    supervisor = make_supervisor(sink=failing_sink)
    process = supervisor.start(KEY, SLEEP)
    for _ in range(2):
        os.kill(process.pid, signal.SIGKILL)
        assert isinstance(events.get(timeout=60), ProcessExited)
        process = events.get(timeout=60)
        assert isinstance(process, ProcessRespawned)
    assert "a defect of the owner" in caplog.text


def test_respawn_that_cannot_write_is_reported_and_retried(supervisor, events, pids):
    process = supervisor.start(KEY, SLEEP)
    shutil.rmtree(pids / "sleeper")
    (pids / "sleeper").write_text("in the way")
    os.kill(process.pid, signal.SIGKILL)
    assert isinstance(events.get(timeout=60), ProcessExited)
    failed = events.get(timeout=60)
    assert isinstance(failed, RespawnFailed)
    assert str(pids / "sleeper") in failed.reason
    (pids / "sleeper").unlink()
    while not isinstance(event := events.get(timeout=60), ProcessRespawned):
        assert isinstance(event, RespawnFailed)
    assert supervisor.pid(KEY) == event.pid
    assert running("sleep", "1000") == [event.pid]


def test_what_is_in_the_way_of_the_records_is_said(supervisor, pids):
    pids.mkdir()
    (pids / "sleeper").write_text("in the way")
    with pytest.raises(BackendBroken, match=str(pids / "sleeper")):
        supervisor.start(KEY, SLEEP)
    (pids / "sleeper").unlink()
    supervisor.start(KEY, SLEEP)


def test_a_directory_that_is_a_file_is_said_by_everything(tmp_path):
    (tmp_path / "file").write_text("")
    with Supervisor(tmp_path / "file", print) as supervisor:
        for ask in (lambda: supervisor.start(KEY, SLEEP), supervisor.present):
            with pytest.raises(BackendBroken, match="file"):
                ask()


def test_what_cannot_be_recorded_is_not_left_running(supervisor, pids):
    (pids / "sleeper/one.json/full").mkdir(parents=True)
    with pytest.raises(BackendBroken, match="recorded"):
        supervisor.start(KEY, SLEEP)
    assert running("sleep", "1000") == []


def test_a_child_that_cannot_be_held_is_not_left_running(supervisor, monkeypatch):
    def full(pid: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pidfd_open", full)
        with pytest.raises(BackendUnavailable, match="Too many open files"):
            supervisor.start(KEY, SLEEP)
    assert running("sleep", "1000") == []
    supervisor.start(KEY, SLEEP)


def test_a_process_that_cannot_be_watched_is_taken_over_by_the_next_try(
    supervisor, events, monkeypatch
):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(selectors.DefaultSelector, "register", full)
        before = os.listdir("/proc/self/fd")
        with pytest.raises(BackendUnavailable, match="No space left"):
            supervisor.start(KEY, SLEEP)
        assert os.listdir("/proc/self/fd") == before
    process = supervisor.start(KEY, SLEEP)
    assert process.adopted
    assert running("sleep", "1000") == [process.pid]
    os.kill(process.pid, signal.SIGKILL)
    assert isinstance(events.get(timeout=60), ProcessExited)


def test_whichever_step_of_a_start_lacks_descriptors_nothing_is_left_running(supervisor):
    for room in range(5):
        with few_descriptors(room), suppress(NetfwError):
            supervisor.start(KEY, SLEEP)
        supervisor.stop(KEY)
        assert running("sleep", "1000") == []


BAD_IDENTITY = {
    "pid of no number": {"pid": float("inf")},
    "pid too large for the kernel": {"pid": 1 << 40},
    "negative pid": {"pid": -1},
    "no pid": {"pid": 0},
    "no command line": {"argv": []},
    "no namespace": {"namespace": {"device": 1}},
}


@pytest.fixture
def neighbour(supervisor) -> ProcessKey:
    key = ProcessKey("sleeper", "neighbour")
    supervisor.start(key, Program(argv=("sleep", "2000")))
    return key


@pytest.mark.parametrize("bad", BAD_IDENTITY.values(), ids=BAD_IDENTITY)
def test_a_record_of_what_cannot_be_a_process_is_no_record(make_supervisor, neighbour, pids, bad):
    first = make_supervisor()
    process = first.start(KEY, SLEEP)
    first.close()
    path = pids / "sleeper/one.json"
    record = json.loads(path.read_text())
    record["identity"] |= bad
    path.write_text(json.dumps(record))
    second = make_supervisor()
    assert second.present() == {KEY, neighbour}
    assert second.start(KEY, SLEEP).pid == process.pid


@pytest.mark.parametrize("text", ["[" * 100_000, '{"identity":{"pid":1e400}}', '"\\ud800"'])
def test_one_bad_record_does_not_hide_the_others(supervisor, neighbour, pids, text):
    (pids / "sleeper/one.json").write_text(text)
    assert supervisor.present() == {neighbour}
    supervisor.stop(KEY)
    assert supervisor.start(KEY, SLEEP).pid == supervisor.pid(KEY)


def test_a_record_is_replaced_in_one_step(supervisor, pids, tmp_path):
    # A reader that has the old file open reads the old record to its end.
    supervisor.start(KEY, SLEEP)
    before = {}
    for suffix in ("json", "pid"):
        os.link(pids / f"sleeper/one.{suffix}", tmp_path / suffix)
        before[suffix] = (tmp_path / suffix).read_text()
    supervisor.start(KEY, Program(argv=("sleep", "2000")))
    assert {suffix: (tmp_path / suffix).read_text() for suffix in before} == before


def test_steady_process_is_respawned_without_back_off(make_supervisor, events, tmp_path):
    backoff = Backoff(first=0.01, most=60, steady=0.4)
    supervisor = make_supervisor(backoff=backoff, timeouts=Timeouts(settle=0))
    script = tmp_path / "program"
    script.write_text("#!/bin/sh\nexec sleep 1000\n")
    script.chmod(0o755)
    process = supervisor.start(KEY, Program(argv=(str(script),)))
    for _ in range(4):
        os.kill(process.pid, signal.SIGKILL)
        assert isinstance(events.get(timeout=60), ProcessExited)
        process = events.get(timeout=60)
        assert isinstance(process, ProcessRespawned)
    time.sleep(backoff.steady)
    script.unlink()
    os.kill(process.pid, signal.SIGKILL)
    assert isinstance(events.get(timeout=60), ProcessExited)
    assert events.get(timeout=60).retry_in == backoff.delay(2)


def test_a_program_does_not_inherit_what_we_were_given(supervisor):
    ends = os.pipe()
    for end in ends:
        os.set_inheritable(end, True)
    process = supervisor.start(KEY, SLEEP)
    for end in ends:
        os.close(end)
    descriptors = f"/proc/{process.pid}/fd"  # while it is loaded, also that of a library
    wait_until(lambda: sorted(os.listdir(descriptors)) == ["0", "1", "2"], "its own descriptors")


def test_a_program_neither_ignores_nor_blocks_what_we_do(supervisor):
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR2})
    try:
        process = supervisor.start(KEY, SLEEP)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGUSR2})
        signal.signal(signal.SIGUSR1, before)
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines)
    ours = sum(1 << number - 1 for number in signal.valid_signals())  # the C library has two more
    assert int(status["SigIgn"], 16) & ours == 0
    assert int(status["SigBlk"], 16) & ours == 0


def test_failing_event_sink_without_respawn_does_not_end_the_watch(make_supervisor, events):
    def failing_sink(event: object) -> None:
        events.put(event)
        raise KeyError("a defect of the owner")

    supervisor = make_supervisor(sink=failing_sink)
    process = supervisor.start(KEY, Program(argv=SLEEP.argv, on_death=OnDeath.TELL))
    os.kill(process.pid, signal.SIGKILL)
    assert isinstance(events.get(timeout=60), ProcessExited)
    wait_until(lambda: supervisor.present() == frozenset())
