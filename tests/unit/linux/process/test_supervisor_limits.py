"""The supervisor on a machine without free descriptors, or with a full disc."""

import errno
import os
import queue
import selectors
import signal
from pathlib import Path

import pytest

from netfw.errors import BackendUnavailable
from netfw.linux.process import (
    Backoff,
    ProcessKey,
    ProcessRespawned,
    Program,
    RespawnFailed,
    Supervisor,
    Timeouts,
    pid_files,
)
from tests.descriptor_limit import few_descriptors

KEY = ProcessKey("sleeper", "one")
SLEEP = Program(argv=("sleep", "1000"))


@pytest.fixture
def events():
    return queue.Queue()


@pytest.fixture
def make(tmp_path, events):
    made = []

    def make():
        timeouts = Timeouts(stop=5.0, kill=60.0, launch=60.0)
        backoff = Backoff(first=0.02, most=0.2)
        made.append(Supervisor(tmp_path / "pids", events.put, backoff=backoff, timeouts=timeouts))
        return made[-1]

    yield make
    for supervisor in made:
        supervisor.close()
    with make() as last:
        for key in last.present():
            last.stop(key)


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def fail(number: int):
    def full(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return full


def await_respawn(events) -> tuple[int, int]:
    """Return the number of failed attempts, and the pid of the process that runs again."""
    failed = 0
    while not isinstance(event := events.get(timeout=60), ProcessRespawned):
        failed += isinstance(event, RespawnFailed)
    return failed, event.pid


@pytest.mark.parametrize("room", range(4))
def test_stop_without_descriptors_does_not_leave_the_process_unknown(make, room):
    with make() as former:
        pid = former.start(KEY, SLEEP).pid
    supervisor = make()
    with few_descriptors(room):
        try:
            supervisor.stop(KEY)
        except BackendUnavailable:
            assert is_running(pid)
        else:
            assert not is_running(pid)
    supervisor.stop(KEY)
    assert not is_running(pid)


def test_start_without_descriptors_does_not_start_a_second_process(make, monkeypatch):
    with make() as former:
        pid = former.start(KEY, SLEEP).pid
    supervisor, real, attempts = make(), os.pidfd_open, []

    def pidfd_open(*options: int) -> int:
        attempts.append(options)
        if len(attempts) <= 2:
            fail(errno.EMFILE)()
        return real(*options)

    monkeypatch.setattr(os, "pidfd_open", pidfd_open)
    for _ in range(2):
        with pytest.raises(BackendUnavailable, match="Too many open files"):
            supervisor.start(KEY, SLEEP)
    process = supervisor.start(KEY, SLEEP)
    assert (process.pid, process.adopted) == (pid, True)


def test_orphan_is_found_after_a_search_without_descriptors(make, tmp_path, monkeypatch):
    with make() as former:
        pid = former.start(KEY, SLEEP).pid
    (tmp_path / "pids" / "sleeper" / "one.json").unlink()
    supervisor, real = make(), Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        return fail(errno.EMFILE)() if path.name == "environ" else real(path)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", read_bytes)
        with pytest.raises(BackendUnavailable, match="Too many open files"):
            supervisor.present()
    assert supervisor.present() == {KEY}
    supervisor.stop(KEY)
    assert not is_running(pid)


@pytest.mark.parametrize("written", [1, 2])
def test_respawn_goes_on_after_a_record_that_was_written_in_part(
    make, events, monkeypatch, written
):
    pid, real, files = make().start(KEY, SLEEP).pid, pid_files._replace, []

    def replace(path: Path, text: str) -> None:
        files.append(path)
        if len(files) == written:
            fail(errno.ENOSPC)()
        real(path, text)

    monkeypatch.setattr(pid_files, "_replace", replace)
    os.kill(pid, signal.SIGKILL)
    failed, pid = await_respawn(events)
    assert failed == 1
    assert is_running(pid)


def test_respawn_goes_on_after_a_process_that_could_not_be_watched(make, events, monkeypatch):
    supervisor, real, attempts = make(), selectors.DefaultSelector.register, []

    def register(*options: object) -> object:
        attempts.append(options)
        return fail(errno.ENOSPC)() if len(attempts) == 2 else real(*options)

    monkeypatch.setattr(selectors.DefaultSelector, "register", register)
    pid = supervisor.start(KEY, SLEEP).pid
    os.kill(pid, signal.SIGKILL)
    failed, pid = await_respawn(events)
    assert failed == 1
    assert supervisor.pid(KEY) == pid
