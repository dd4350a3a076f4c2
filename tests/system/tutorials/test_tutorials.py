"""The tutorials in docs/tutorials do what they say: their commands are executed as printed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from netfw.testing.lab.wait import wait_until
from tests.system.tutorials.conftest import FIRST
from tests.system.tutorials.installation import MARK, processes
from tests.system.tutorials.reader import Reader

TUTORIALS = sorted(path for path in FIRST.parent.glob("*.md") if path != FIRST)


@pytest.mark.nightly
@pytest.mark.timeout(1800)  # dozens of commands, one after another
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_tutorial_does_what_it_says_and_leaves_nothing_behind(reader: Reader, page: Path) -> None:
    before = sorted(os.listdir(reader.home))
    reader.follow(page)
    assert sorted(os.listdir(reader.home)) == before
    mark = reader.environ[MARK]
    wait_until(lambda: not processes(mark), lambda: processes(mark))
