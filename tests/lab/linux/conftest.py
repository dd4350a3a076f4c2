from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from netfw.linux import netns
from netfw.linux.iptables import Backend, IptablesBinaries
from netfw.testing.lab import sandbox


@pytest.fixture
def space() -> Iterator[str]:
    """Yield a namespace of this test."""
    sandbox.require()
    name = "filter"
    netns.create(name)
    try:
        yield name
    finally:
        netns.delete(name)


@pytest.fixture(params=[Backend.NFT, Backend.LEGACY], ids=["nft", "legacy"])
def tool(request: pytest.FixtureRequest) -> IptablesBinaries:
    return IptablesBinaries(request.param)


class Shell:
    """Commands as an operator types them, in a namespace."""

    def __init__(self, space: str) -> None:
        self._space = space

    def __call__(self, line: str, feed: str = "") -> str:
        done = netns.run_in(
            self._space,
            subprocess.run,
            line,
            shell=True,
            input=feed,
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"
        return done.stdout


@pytest.fixture
def shell(space: str) -> Shell:
    return Shell(space)
