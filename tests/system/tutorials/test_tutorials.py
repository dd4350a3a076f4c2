"""The tutorials in docs/tutorials do what they say: their commands are executed as printed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen

from netfw.testing.lab import sandbox
from netfw.testing.lab.temp_directory import temporary_directory
from netfw.testing.lab.wait import wait_until
from tests.system.tutorials.installation import MARK, ROOT, clone, processes, provide_packages
from tests.system.tutorials.page import parse_page
from tests.system.tutorials.shell import TutorialShell

PAGES = ROOT / "docs" / "tutorials"
FIRST = PAGES / "index.md"
TUTORIALS = sorted(path for path in PAGES.glob("*.md") if path != FIRST)


@frozen
class Reader:
    """A reader: a home directory, and the environment of the terminal."""

    home: Path
    environ: dict[str, str]

    def follow(self, page: Path) -> None:
        """Do what the page says."""
        with TutorialShell(self.home, self.environ) as shell:
            shell.execute(page, parse_page(page))


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    """Yield a reader who has followed the first page, which installs netfw."""
    sandbox.require()
    with temporary_directory("netfw-tutorial.") as directory:
        directory.chmod(0o755)  # dnsmasq reads its files as a user who may do nothing else
        home = directory / "home"
        clone(home / "netfw")
        packages = provide_packages(directory / "packages")
        mark = {MARK: str(directory), "TMPDIR": str(directory)}
        reader = Reader(home, {**sandbox.environment(), **packages, **mark})
        reader.follow(FIRST)
        yield reader


@pytest.mark.timeout(1800)  # dozens of commands, one after another
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_tutorial_does_what_it_says_and_leaves_nothing_behind(reader: Reader, page: Path) -> None:
    before = sorted(os.listdir(reader.home))
    reader.follow(page)
    assert sorted(os.listdir(reader.home)) == before
    mark = reader.environ[MARK]
    wait_until(lambda: not processes(mark), lambda: processes(mark))
