"""Every test begins and ends with an empty sandbox."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from netfw.linux import netns
from netfw.testing.lab import sandbox


@pytest.fixture(autouse=True)
def _sandbox() -> Iterator[None]:
    sandbox.require()
    yield
    for name in netns.names():
        netns.delete(name)


@pytest.fixture
def ip() -> Callable[..., Any]:
    """What ``ip -j ...`` says, as data."""

    def run(*arguments: str) -> Any:
        done = subprocess.run(
            ["ip", "-j", "-d", *arguments], check=True, capture_output=True, text=True
        )
        return json.loads(done.stdout or "null")

    return run
