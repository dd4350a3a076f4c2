"""Processes that die, and are started again or told of."""

from __future__ import annotations

import os
import queue
import random
import signal
import threading
import time
from contextlib import suppress
from itertools import pairwise

import pytest

from netfw.linux.process import (
    Backoff,
    OnDeath,
    ProcessExited,
    ProcessKey,
    ProcessRespawned,
    Program,
    RespawnFailed,
    Timeouts,
)
from netfw.testing.lab.wait import wait_until
from tests.lab.linux.process.process_observer import running, state, zombies

pytestmark = pytest.mark.spec("DRV-45")


KEY = ProcessKey("sleeper", "one")


SLEEP = Program(argv=("sleep", "1000"))


def test_dead_process_is_respawned_and_reported(supervisor, events):
    process = supervisor.start(KEY, SLEEP)
    os.kill(process.pid, signal.SIGKILL)
    died, again = events.get(timeout=60), events.get(timeout=60)
    assert isinstance(died, ProcessExited)
    assert died.reason == "sleeper/one was ended by signal 9 (Killed)"
    assert isinstance(again, ProcessRespawned)
    assert running("sleep", "1000") == [again.pid] != [process.pid]
    assert supervisor.pid(KEY) == again.pid
    assert state(process.pid) is None, "a zombie was left"


def test_last_output_of_a_dead_process_is_reported(make_supervisor, events, tmp_path):
    supervisor = make_supervisor(timeouts=Timeouts(settle=0))
    started = tmp_path / "started"
    script = f"until [ -e '{started}' ]; do sleep 0.01; done; echo out of cheese; exit 4"
    supervisor.start(KEY, Program(argv=("sh", "-c", script)))
    started.touch()
    died = events.get(timeout=60)
    assert (died.reason, died.tail) == ("sleeper/one ended with status 4", "out of cheese")


def test_crash_looping_process_is_respawned_with_back_off(
    make_supervisor, events, monkeypatch, tmp_path
):
    times = []
    monkeypatch.setattr(events, "put", lambda event: times.append((time.monotonic(), event)))
    backoff = Backoff(first=0.05, most=0.2, steady=30)
    supervisor = make_supervisor(backoff=backoff, timeouts=Timeouts(settle=0))
    started = tmp_path / "started"
    script = f"until [ -e '{started}' ]; do sleep 0.01; done; sleep 0.01; exit 1"
    supervisor.start(KEY, Program(argv=("sh", "-c", script)))
    started.touch()
    wait_until(lambda: len(times) >= 9)
    deaths = [when for when, event in times if isinstance(event, ProcessExited)]
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
    assert isinstance(events.get(timeout=60), ProcessExited)
    failed = events.get(timeout=60)
    assert isinstance(failed, RespawnFailed)
    assert "there is no command" in failed.reason
    (tmp_path / "away").rename(program)
    while not isinstance(event := events.get(timeout=60), ProcessRespawned):
        assert isinstance(event, RespawnFailed)
    assert supervisor.pid(KEY) == event.pid


def test_death_is_only_reported_when_respawn_is_off(supervisor, events):
    process = supervisor.start(KEY, Program(argv=("sleep", "1000"), on_death=OnDeath.TELL))
    os.kill(process.pid, signal.SIGTERM)
    assert events.get(timeout=60).on_death is OnDeath.TELL
    with pytest.raises(queue.Empty):
        events.get(timeout=0.3)
    assert running("sleep", "1000") == []


def test_killing_at_random_times_ends_in_one_process(supervisor, events):
    chance = random.Random(1)
    before = zombies()
    supervisor.start(KEY, SLEEP)
    for _ in range(30):
        for pid in running("sleep", "1000"):
            with suppress(ProcessLookupError):  # it was killed before, and ended only now
                os.kill(pid, signal.SIGKILL)
        time.sleep(chance.uniform(0, 0.06))
        if chance.random() < 0.3:
            supervisor.start(KEY, SLEEP)
    wait_until(lambda: supervisor.pid(KEY) is not None)
    time.sleep(0.3)
    wait_until(lambda: running("sleep", "1000") == [supervisor.pid(KEY)])
    assert zombies() <= before


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
    supervisor = make_supervisor(backoff=Backoff(first=3, most=3), timeouts=Timeouts(settle=0))
    first = supervisor.start(KEY, SLEEP)
    os.kill(first.pid, signal.SIGKILL)
    assert isinstance(events.get(timeout=60), ProcessExited)
    time.sleep(0.3)  # a part of the delay
    second = supervisor.start(KEY, SLEEP)
    killed = time.monotonic()
    os.kill(second.pid, signal.SIGKILL)
    assert isinstance(events.get(timeout=60), ProcessExited)
    assert isinstance(events.get(timeout=60), ProcessRespawned)
    assert time.monotonic() - killed >= 3


def test_hundreds_of_processes_have_one_watcher(make_supervisor, events):
    before = threading.active_count()
    supervisor = make_supervisor(timeouts=Timeouts(settle=0, stopped=600))
    keys = [ProcessKey("sleeper", str(number)) for number in range(150)]
    pids = {key: supervisor.start(key, SLEEP).pid for key in keys}
    assert threading.active_count() == before + 1
    for key in keys[:50]:
        os.kill(pids[key], signal.SIGKILL)
    respawned = set()
    while len(respawned) < 50:
        event = events.get(timeout=60)
        if isinstance(event, ProcessRespawned):
            respawned.add(event.key)
    assert respawned == set(keys[:50])
    for key in keys:
        supervisor.stop(key)
    supervisor.close()
    assert threading.active_count() == before
