"""The pytest plug-in: ``--sandbox``, and fixtures that need one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.openvswitch import PrivateOvs


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("netfw").addoption(
        "--sandbox",
        action="store_true",
        help="run all tests in namespaces of their own, away from the machine's network",
    )


@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> Iterator[None]:
    if early_config.known_args_namespace.sandbox and not sandbox.inside():
        sys.stdout.flush()
        sandbox.enter([sys.executable, *sys.orig_argv[1:]])
    return (yield)


@pytest.fixture
def ovs(tmp_path: Path) -> Iterator[PrivateOvs]:
    """A private Open vSwitch of this test."""
    switch = PrivateOvs(Path("/run/netfw") / tmp_path.name).start()
    try:
        yield switch
    finally:
        switch.stop()
