"""The source of the previous release, in checkouts with and without history."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.previous_release import InstallationError, print_step, unpack

pytestmark = pytest.mark.slow


def git(directory: Path, *words: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "gc.auto=0")
    argv = ["git", *identity, "-C", str(directory), *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """Return a repository whose file has ``old`` in its first commit, and then ``new``."""
    made = tmp_path / "origin"
    made.mkdir()
    git(made, "init", "--quiet")
    for word in ("old", "new"):
        (made / "file").write_text(word)
        git(made, "add", "file")
        git(made, "commit", "--quiet", "-m", word)
    return made


def test_a_commit_of_the_history_is_unpacked(origin: Path, tmp_path: Path) -> None:
    unpack(git(origin, "rev-parse", "HEAD~1"), tmp_path / "source", origin, tmp_path / "git")
    assert (tmp_path / "source/file").read_text() == "old"
    assert not (tmp_path / "git").exists()


def test_a_shallow_clone_fetches_the_commit_and_stays_shallow(origin: Path, tmp_path: Path) -> None:
    commit, clone = git(origin, "rev-parse", "HEAD~1"), tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{origin}", str(clone))
    unpack(commit, tmp_path / "source", clone, tmp_path / "git")
    assert (tmp_path / "source/file").read_text() == "old"
    assert git(clone, "rev-list", "--count", "HEAD") == "1"


def test_a_commit_that_is_nowhere_is_named_with_the_remedy(origin: Path, tmp_path: Path) -> None:
    with pytest.raises(InstallationError, match=r"7777.*no remote.*NETFW_PREVIOUS"):
        unpack("7" * 40, tmp_path / "source", origin, tmp_path / "git")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{origin}", str(clone))
    with pytest.raises(InstallationError, match=r"(?s)7777.*does not give it.*NETFW_PREVIOUS"):
        unpack("7" * 40, tmp_path / "other", clone, tmp_path / "git")


def test_the_step_is_left_out_aloud_without_the_commit(
    origin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_step(git(origin, "rev-parse", "HEAD~1"), origin)
    assert capsys.readouterr() == ("system-releases:last\n", "")
    print_step("7" * 40, origin)
    printed = capsys.readouterr()
    assert not printed.out
    assert "left out" in printed.err
