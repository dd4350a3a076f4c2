"""Lock files on real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from netfw.linux.fs.lock_file import LockFile, LockHeld

HOLDER = """
import sys
from pathlib import Path
from netfw.linux.fs.lock_file import LockFile
LockFile(Path(sys.argv[1])).acquire()
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holder_process(path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder
        holder.kill()


def test_second_holder_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    lock = LockFile(tmp_path / "lock")
    with holder_process(lock.path) as holder:
        with pytest.raises(LockHeld, match=rf"process {holder.pid} holds {lock.path}") as refusal:
            lock.acquire()
        assert refusal.value.holder == holder.pid
        assert not lock.is_held


def test_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    lock = LockFile(tmp_path / "lock")
    with holder_process(lock.path) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert lock.path.exists()
        lock.acquire()
        assert lock.path.read_text() == f"{os.getpid()}\n"
        assert lock.is_held
    lock.release()


def test_acquire_with_a_timeout_waits_for_the_holder(tmp_path: Path) -> None:
    first, second = LockFile(tmp_path / "lock"), LockFile(tmp_path / "lock")
    first.acquire()
    began = time.monotonic()
    with pytest.raises(LockHeld, match=f"process {os.getpid()} "):
        second.acquire(timeout=0.2)
    assert time.monotonic() - began >= 0.2
    releasing = threading.Timer(0.2, first.release)
    releasing.start()
    second.acquire(timeout=60)
    releasing.join()
    assert (first.is_held, second.is_held) == (False, True)
    second.release()


def test_release_removes_the_file_and_is_idempotent(tmp_path: Path) -> None:
    lock = LockFile(tmp_path / "lock")
    lock.release()
    lock.acquire()
    lock.acquire()
    assert lock.path.stat().st_mode & 0o777 == 0o600
    lock.release()
    lock.release()
    assert not list(tmp_path.iterdir())


def test_file_removed_while_locked_is_locked_anew(tmp_path: Path) -> None:
    first, second = LockFile(tmp_path / "lock"), LockFile(tmp_path / "lock")
    first.acquire()
    first.path.unlink()
    assert not first.is_held
    first.acquire()
    with pytest.raises(LockHeld):
        second.acquire()
    first.path.unlink()
    second.acquire()
    first.release()
    assert second.is_held, "the release of a stale holder leaves the new file alone"
    second.release()


def test_forked_child_does_not_release_the_lock_of_its_parent(tmp_path: Path) -> None:
    lock = LockFile(tmp_path / "lock")
    lock.acquire()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            lock.release()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert lock.is_held
    with pytest.raises(LockHeld):
        LockFile(lock.path).acquire()
    lock.release()


def test_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    (tmp_path / "lock").symlink_to(target)
    with pytest.raises(OSError, match="symbolic link"):
        LockFile(tmp_path / "lock").acquire()
    assert not target.exists()


@pytest.mark.slow
def test_many_processes_hold_it_one_at_a_time(tmp_path: Path) -> None:
    program = """
import os, sys
from pathlib import Path
from netfw.linux.fs.lock_file import LockFile
count = Path(sys.argv[2])
for _ in range(20):
    lock = LockFile(Path(sys.argv[1]))
    lock.acquire(timeout=60)
    count.write_text(str(int(count.read_text()) + 1))
    lock.release()
"""
    count = tmp_path / "count"
    count.write_text("0")
    command = [sys.executable, "-c", program, str(tmp_path / "lock"), str(count)]
    processes = [subprocess.Popen(command) for _ in range(4)]
    assert [process.wait(120) for process in processes] == [0] * 4
    assert count.read_text() == "80"


def test_a_released_lock_is_free_though_a_forked_child_has_the_file_open(tmp_path: Path) -> None:
    # A child between fork and exec has the file open; its program would close it.
    first = LockFile(tmp_path / "lock", keep=True)
    first.acquire()
    (descriptor,) = _descriptors_of(tmp_path / "lock")
    inherited = os.dup(descriptor)
    try:
        first.release()
        second = LockFile(tmp_path / "lock")
        second.acquire()
        second.release()
    finally:
        os.close(inherited)


def _descriptors_of(path: Path) -> list[int]:
    opened = Path("/proc/self/fd")
    return [int(each.name) for each in opened.iterdir() if os.path.realpath(each) == str(path)]
