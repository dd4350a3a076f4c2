"""Steps of ``make test`` that are ended before their time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.testing.lab.wait import wait_until
from tools import steps

pytestmark = pytest.mark.slow

MAKEFILE = """\
.RECIPEPREFIX = >
cleaning:
> @trap 'sleep 1; echo cleaned >made; kill $$child; exit 1' INT TERM; sleep 600 & child=$$!; \\
>     echo $$child >.child; mv .child child; wait
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Return a directory with a step that starts a process, and cleans up when it is ended."""
    (tmp_path / "Makefile").write_text(MAKEFILE)
    yield tmp_path
    if (child := tmp_path / "child").exists() and is_alive(int(child.read_text())):
        os.kill(int(child.read_text()), signal.SIGKILL)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("number", "ignored"),
    [
        (signal.SIGINT, ()),
        (signal.SIGTERM, ()),
        (signal.SIGHUP, ()),
        (signal.SIGTERM, (signal.SIGINT,)),
        (signal.SIGTERM, (signal.SIGINT, signal.SIGHUP)),
    ],
)
def test_ended_steps_clean_up_and_leave_no_process(
    place: Path, number: signal.Signals, ignored: tuple[signal.Signals, ...]
) -> None:
    # The step inherits nothing of what started the tests, such as nohup.
    inherited = {
        each: signal.signal(each, signal.SIG_IGN if each in ignored else signal.SIG_DFL)
        for each in (signal.SIGINT, signal.SIGHUP)
    }
    try:
        argv = [sys.executable, steps.__file__, "cleaning"]
        process = subprocess.Popen(argv, cwd=place, stdout=subprocess.PIPE)
    finally:
        for each, before in inherited.items():
            signal.signal(each, before)
    with process:
        wait_until((place / "child").exists, "the step does not start", seconds=60)
        process.send_signal(number)
        assert process.stdout is not None
        wait_until(lambda: b"ending the steps" in process.stdout.readline(), "it goes on")
        process.send_signal(number)  # a second one does not interrupt the end
        assert process.wait(60) == 128 + number
    assert not is_alive(int((place / "child").read_text()))
    assert (place / "made").read_text() == "cleaned\n"
