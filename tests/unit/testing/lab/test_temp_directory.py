"""Directories of processes that end, and of those that are killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from netfw.testing.lab.temp_directory import temporary_directory

OWNER = """
import sys, tempfile
from netfw.testing.lab.temp_directory import temporary_directory
tempfile.tempdir = sys.argv[1]
with temporary_directory("mine-") as path:
    (path / "sub").mkdir()
    (path / "sub" / "file").write_text("text")
    print(path, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def owner(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    """Return a process that has a directory, and this directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_directory_goes_at_the_end(parent: Path) -> None:
    with temporary_directory("mine-") as path:
        (path / "file").write_text("text")
        assert path.parent == parent
    assert not list(parent.iterdir())


def test_what_a_killed_process_left_goes_with_the_next(parent: Path) -> None:
    process, left = owner(parent)
    with process, temporary_directory("mine-"):
        assert (left / "sub" / "file").exists(), "it was taken from a process that lives"
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert left.exists()
        with temporary_directory("other-"):
            assert left.exists()
        with temporary_directory("mine-"):
            assert not left.exists()


def test_what_is_not_such_a_directory_is_left_alone(parent: Path) -> None:
    kept = parent / "kept"
    kept.mkdir()
    (parent / "mine-link").symlink_to(kept)
    (parent / "mine-file").write_text("text")
    with temporary_directory("mine-"):
        pass
    assert {path.name for path in parent.iterdir()} == {"kept", "mine-link", "mine-file"}


@pytest.mark.slow
def test_many_at_once_leave_each_other_alone(parent: Path) -> None:
    begin = threading.Barrier(8)

    def work() -> None:
        begin.wait()
        for _ in range(30):
            with temporary_directory("mine-") as path:
                (path / "file").write_text("text")
                assert (path / "file").read_text() == "text"

    with ThreadPoolExecutor(8) as pool:
        for each in [pool.submit(work) for _ in range(8)]:
            each.result()
    assert not list(parent.iterdir())
