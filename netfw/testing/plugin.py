"""The pytest plug-in: ``--sandbox``, and fixtures that need one.

``ovs``
    a private Open vSwitch
``lab``
    two hosts and a fabric between them
``make_lab``
    as many labs as the test wants, ``make_lab(hosts=3)``

All of them are gone when the test ends, however it ends.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.openvswitch import PrivateOvs

if TYPE_CHECKING:
    from netfw.testing.lab.lab import Lab

pytest.register_assert_rewrite("netfw.testing.conformance")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("netfw").addoption(
        "--sandbox",
        action="store_true",
        help="run all tests in namespaces of their own, away from the machine's network",
    )


@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    if early_config.known_args_namespace.sandbox and not sandbox.inside():
        if len(sys.orig_argv) < 2:
            raise pytest.UsageError("--sandbox starts the whole command again: there is none here")
        sys.stdout.flush()
        sys.stderr.flush()
        sandbox.enter([sys.executable, *sys.orig_argv[1:]])
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give each worker of pytest-xdist a sandbox within the sandbox: they share no network."""
    if config.option.sandbox and getattr(config.option, "tx", None):
        worker = shlex.join(sandbox.command([sys.executable]))
        config.option.tx = [
            f"popen//python={worker}" if spec == "popen" else spec for spec in config.option.tx
        ]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the promises that a failed test of a conformance suite proves."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        sentences = getattr(item.function, "proven_sentences", ())
        if sentences:
            report.sections.append(("what the driver promises", "\n".join(sentences)))
    return report


class MakeLab(Protocol):
    """What the fixture ``make_lab`` is."""

    def __call__(self, **options: Any) -> Lab:
        """Return a lab that is up; the options are those of :class:`Lab`."""


@pytest.fixture
def ovs() -> Iterator[PrivateOvs]:
    """Yield a private Open vSwitch of this test."""
    sandbox.require()
    switch = PrivateOvs(Path(tempfile.mkdtemp(prefix="ovs-", dir="/run")))
    try:
        yield switch.start()
    finally:
        switch.stop()


@pytest.fixture
def make_lab() -> Iterator[MakeLab]:
    """Yield a function that brings up labs of this test."""
    from netfw.testing.lab.lab import Lab

    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(Lab(**options))


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    """Two hosts, ``host1`` and ``host2``."""
    return make_lab(hosts=2)
