"""Runs a suite on deliberately broken drivers, and keeps which of its tests refused whom."""

import os
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import pytest


class Failures:
    """A plug-in that keeps which tests of which suite failed.

    That something is left behind is found after many tests; it counts where a test is about it.
    """

    def __init__(self) -> None:
        self.of: dict[str, set[str]] = defaultdict(set)
        self.left: set[str] = set()
        self.passed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        _, suite, test = report.nodeid.split("::")
        name = suite.removeprefix("Test")
        if report.when == "call":
            self.passed += report.passed
            if report.failed:
                self.of[name].add(test.partition("[")[0])
        elif report.failed:
            self.left.add(name)


def failures_of(module: ModuleType) -> Failures:
    """What became of the suites in *module*, in a run of pytest of their own."""
    found = Failures()
    assert module.__file__ is not None
    file = Path(module.__file__)
    pytest.main(
        [str(file), "-c", os.devnull, "--rootdir", str(file.parent),
         "-p", "no:cacheprovider", "-p", "no:terminal", "-p", "no:timeout"],
        plugins=[found],
    )  # fmt: skip
    return found
