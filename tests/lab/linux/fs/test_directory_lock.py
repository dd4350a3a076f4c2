"""One of several works in a directory; the others wait until it has ended."""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from netfw.drivers.events import Event, FeedLost
from netfw.errors import BackendLocked
from netfw.linux.fs.directory_lock import DirectoryLock

HOLDER = """
import sys
from pathlib import Path
from netfw.linux.fs.directory_lock import DirectoryLock
DirectoryLock(Path(sys.argv[1]), "confs", begin=lambda: None, tell=print).acquire()
print("has it", flush=True)
sys.stdin.read()
"""


class Applicant:
    def __init__(self, directory: Path) -> None:
        self.heard: queue.Queue[Event] = queue.Queue()
        self.begun = 0
        self.tenure = DirectoryLock(directory, "confs", begin=self._begin, tell=self.heard.put)

    def _begin(self) -> None:
        self.begun += 1


def test_the_second_is_told_who_has_it_and_hears_when_it_is_his_turn(tmp_path: Path) -> None:
    first, second = Applicant(tmp_path / "made"), Applicant(tmp_path / "made")
    first.tenure.acquire()
    first.tenure.acquire()
    with pytest.raises(BackendLocked, match=rf"process {os.getpid()} works in .*its own confs"):
        second.tenure.acquire()
    assert (first.begun, second.begun) == (1, 0)
    first.tenure.release()
    assert isinstance(second.heard.get(timeout=10), FeedLost)
    with pytest.raises(BackendLocked):
        first.tenure.acquire()  # the second has it since it heard
    second.tenure.acquire()
    assert second.begun == 1
    second.tenure.release()
    first.tenure.release()
    assert first.heard.empty()


def test_who_is_killed_has_it_no_longer(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "has it\n"
        waiting = Applicant(tmp_path)
        with pytest.raises(BackendLocked, match=f"process {holder.pid} "):
            waiting.tenure.acquire()
        holder.kill()
    assert isinstance(waiting.heard.get(timeout=10), FeedLost)
    waiting.tenure.acquire()
    waiting.tenure.release()


def test_a_directory_that_was_removed_is_held_again_without_beginning_anew(tmp_path: Path) -> None:
    first, second = Applicant(tmp_path / "made"), Applicant(tmp_path / "made")
    first.tenure.acquire()
    shutil.rmtree(tmp_path / "made")
    first.tenure.acquire()
    assert first.begun == 1
    with pytest.raises(BackendLocked):
        second.tenure.acquire()
    second.tenure.release()
    first.tenure.release()
