"""The check of names and prose refuses what CONTRIBUTING.md rules out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

pytestmark = pytest.mark.slow


def checkout(directory: Path, **files: str) -> Path:
    """Make a repository with these Python files under netfw/."""
    (directory / "netfw").mkdir()
    (directory / "tools").mkdir()
    for name, text in files.items():
        (directory / "netfw" / f"{name}.py").write_text(text)
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=directory, check=True)
    return directory


def check(directory: Path, *arguments: str) -> tuple[int, str]:
    tool = [sys.executable, ROOT / "tools/vocabulary.py", *arguments]
    done = subprocess.run(tool, cwd=directory, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("crew", "", "netfw/crew.py: "),
        ("pool", "class JobLedgerDesk: ...", "netfw/pool.py:JobLedgerDesk: "),
        ("pool", "def nobody_answers(): ...", "netfw/pool.py:nobody_answers: "),
        ("pool", "def f():\n    '''What it is.'''", "netfw/pool.py: 1 more docstrings"),
        ("pool", "# it can{}be".format(" not "), "netfw/pool.py:1: write cannot"),
    ],
)
def test_private_words_and_noun_clauses_are_refused(
    tmp_path: Path, name: str, text: str, problem: str
) -> None:
    status, output = check(checkout(tmp_path, **{name: text}))
    assert status == 1
    assert output.startswith(problem)


def test_a_class_name_that_two_modules_have_is_refused(tmp_path: Path) -> None:
    private, pattern = "class _Row: ...\n", "class Observed: ...\n"
    text = f"{private}{pattern}class Rule: ...\n"
    status, output = check(checkout(tmp_path, nft=text, iptables=text))
    assert status == 1
    assert output == (
        "class Rule: defined in netfw/iptables.py, netfw/nft.py: put a noun in front of one\n"
    )


def test_field_words_and_properties_pass(tmp_path: Path) -> None:
    text = '''
class WorkerPool:
    @property
    def size(self):
        """All threads."""

    def start(self):
        """Start the threads."""

def early_learned_bookmark(): ...
'''
    assert check(checkout(tmp_path, pool=text)) == (0, "")


def test_an_allowed_name_passes_until_it_is_gone(tmp_path: Path) -> None:
    tree = checkout(tmp_path, crew="")
    assert check(tree, "--write")[0] == 0
    assert check(tree) == (0, "")
    (tree / "netfw/crew.py").rename(tree / "netfw/pool.py")
    subprocess.run(["git", "add", "-A"], cwd=tree, check=True)
    status, output = check(tree)
    assert status == 1
    assert "netfw/crew.py is allowed more often than it occurs" in output
