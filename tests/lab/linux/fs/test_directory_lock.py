"""One driver at a time works in a directory; the others wait until it has released it."""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from netfw.drivers.values.events import Event, FeedLost
from netfw.errors import BackendBroken, BackendLocked, BackendUnavailable
from netfw.linux.fs.directory_lock import DirectoryLock
from tests.thread_limit import no_threads

HOLDER = """
import sys
from pathlib import Path
from netfw.linux.fs.directory_lock import DirectoryLock
DirectoryLock(Path(sys.argv[1]), "confs", on_acquired=lambda: None, publish=print).acquire()
print("held", flush=True)
sys.stdin.read()
"""


class Driver:
    def __init__(self, directory: Path) -> None:
        self.events: queue.Queue[Event] = queue.Queue()
        self.acquired = 0
        self.lock = DirectoryLock(
            directory, "confs", on_acquired=self._count, publish=self.events.put
        )

    def _count(self) -> None:
        self.acquired += 1


def test_second_driver_is_refused_with_the_holder_s_pid_and_receives_an_event_when_it_is_free(
    tmp_path: Path,
) -> None:
    first, second = Driver(tmp_path / "made"), Driver(tmp_path / "made")
    first.lock.acquire()
    first.lock.acquire()
    with pytest.raises(BackendLocked, match=rf"process {os.getpid()} works in .*\(confs\)"):
        second.lock.acquire()
    assert (first.acquired, second.acquired) == (1, 0)
    first.lock.release()
    assert isinstance(second.events.get(timeout=60), FeedLost)
    with pytest.raises(BackendLocked):
        first.lock.acquire()  # the second holds it since the event
    second.lock.acquire()
    assert second.acquired == 1
    first.lock.release()  # while the second holds it, the first cannot acquire it
    second.lock.release()
    assert first.events.empty()


def test_killed_holder_frees_the_directory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        waiting = Driver(tmp_path)
        with pytest.raises(BackendLocked, match=f"process {holder.pid} "):
            waiting.lock.acquire()
        holder.kill()
    assert isinstance(waiting.events.get(timeout=60), FeedLost)
    waiting.lock.acquire()
    waiting.lock.release()


def test_removed_directory_is_locked_again_without_on_acquired(tmp_path: Path) -> None:
    first, second = Driver(tmp_path / "made"), Driver(tmp_path / "made")
    first.lock.acquire()
    shutil.rmtree(tmp_path / "made")
    first.lock.acquire()
    assert first.acquired == 1
    with pytest.raises(BackendLocked):
        second.lock.acquire()
    second.lock.release()
    first.lock.release()


def test_driver_that_got_no_thread_to_wait_with_waits_at_its_next_attempt(tmp_path: Path) -> None:
    first, second = Driver(tmp_path), Driver(tmp_path)
    first.lock.acquire()
    with no_threads(), pytest.raises(BackendUnavailable):
        second.lock.acquire()
    with pytest.raises(BackendLocked):
        second.lock.acquire()
    first.lock.release()
    assert isinstance(second.events.get(timeout=60), FeedLost)
    second.lock.release()


@pytest.mark.skipif(os.geteuid() != 0, reason="others than root may share a directory")
@pytest.mark.parametrize("mode", [0o777, 0o757])
def test_directory_that_others_may_change_is_refused(tmp_path: Path, mode: int) -> None:
    # Other users could replace the files that the driver reads, and that its programs execute.
    (tmp_path / "confs").mkdir()
    (tmp_path / "confs").chmod(mode)
    for directory in (tmp_path / "confs", tmp_path / "confs" / "deeper"):
        driver = Driver(directory)
        with pytest.raises(BackendBroken, match=f"confs: {tmp_path}/confs may be written to"):
            driver.lock.acquire()
        assert list((tmp_path / "confs").iterdir()) == []
    (tmp_path / "confs").chmod(0o755)
    driver.lock.acquire()
    driver.lock.release()
