"""apt-get beside another program that has its locks, with directories of its own."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "tools/waiting-apt-get"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt-get is of Debian and Ubuntu"),
]


@pytest.fixture
def apt(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which apt-get has no sources, and touches *tmp_path* only."""
    for directory in ("etc", "state/lists/partial", "cache/archives/partial", "log"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "conf").write_text(
        f'Dir::Etc "{tmp_path}/etc";\nDir::State "{tmp_path}/state";\n'
        f'Dir::Cache "{tmp_path}/cache";\nDir::Log "{tmp_path}/log";\n'
    )
    return {**os.environ, "APT_CONFIG": str(tmp_path / "conf")}


@pytest.fixture
def process(apt: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Yield ``waiting-apt-get update``, which has just been started."""
    argv, pipe = [str(SCRIPT), "update"], subprocess.PIPE
    with subprocess.Popen(argv, env=apt, stdout=pipe, stderr=pipe, text=True) as started:
        yield started
        started.kill()


@pytest.fixture
def locked(apt: dict[str, str], tmp_path: Path) -> Iterator[int]:
    """Hold the lock of the package lists; yield its descriptor."""
    descriptor = os.open(tmp_path / "state/lists/lock", os.O_RDWR | os.O_CREAT, 0o640)
    fcntl.lockf(descriptor, fcntl.LOCK_EX)
    yield descriptor
    os.close(descriptor)


def test_it_waits_while_another_program_has_the_lock(
    locked: int, process: subprocess.Popen[str]
) -> None:
    assert process.stdout is not None
    assert process.stdout.readline().startswith("Waiting for another program")
    assert process.poll() is None
    fcntl.lockf(locked, fcntl.LOCK_UN)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0


def test_another_error_ends_it_at_once_with_the_text_of_apt_get(apt: dict[str, str]) -> None:
    argv = [str(SCRIPT), "install", "there-is-no-such-package"]
    ended = subprocess.run(argv, check=False, env=apt, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "Unable to locate package there-is-no-such-package" in ended.stderr
