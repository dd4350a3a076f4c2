"""A reader who has installed netfw, for the pages of all test files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.temp_directory import temporary_directory
from tests.system.tutorials.installation import MARK, ROOT, clone, provide_packages
from tests.system.tutorials.reader import Reader

FIRST = ROOT / "docs" / "tutorials" / "index.md"


@pytest.fixture(scope="session")
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
