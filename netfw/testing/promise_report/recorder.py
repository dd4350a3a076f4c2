"""The pytest plug-in that records which promises each test of a suite proves, and its result.

``pytest -p netfw.testing.promise_report.recorder --promises FILE`` writes a line of JSON per
result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from netfw.drivers.registry.error_location import frames_of, package_of
from netfw.testing.conformance.common.host_driver import MissingHooks
from netfw.testing.conformance.common.promises import Promise, proofs_in
from netfw.testing.conformance.watch.suite import WatchedSuite
from netfw.testing.promise_report.error_origin import find_origin

OPTION: Final = "--promises"
LONGEST_REASON: Final = 300
_SYNTAX: Final = re.compile(r'^E +File "(.+)", line (\d+)', re.MULTILINE)
_FRAME: Final = re.compile(r"^(\S+\.py):(\d+): in ", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("netfw").addoption(
        OPTION, type=Path, metavar="FILE", help="record what each test proves in FILE"
    )


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption(OPTION)
    if path is not None:
        config.pluginmanager.register(PromiseRecorder(path))


class PromiseRecorder:
    """Appends results to a file, so that those before a crash of the process are there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._path.touch()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[None]:
        report: Any = yield
        if report.when == "call" or report.outcome != "passed":
            self._write(_described(item) | _result(item, call, report))
        return report  # type: ignore[no-any-return]  # as pytest's wrappers do

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        report: Any = yield
        if report.outcome == "failed":
            excinfo = report.call.excinfo
            error = None if excinfo is None else excinfo.value
            if isinstance(error, MissingHooks):
                self._write({"missing": f"{error}{_class_location(error)}"})
            else:
                self._write({"error": _shorten(_last_line(str(report.longrepr)))})
        return report  # type: ignore[no-any-return]  # as pytest's wrappers do

    def _write(self, record: dict[str, Any]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(record) + "\n")


def _described(item: pytest.Item) -> dict[str, Any]:
    suite = getattr(item, "cls", None)
    proven: frozenset[Promise] = getattr(getattr(item, "function", None), "proves", frozenset())
    proofs = () if suite is None else proofs_in(suite)
    return {
        "bases": [] if suite is None else [base.__name__ for base in suite.__mro__],
        "contracts": sorted({p.where.partition(".")[0] for _, each in proofs for p in each}),
        "test": item.name,
        "proves": sorted((promise.where, promise.what) for promise in proven),
        "untried": _untried(getattr(item, "instance", None)),
    }


def _untried(suite: object) -> dict[str, str]:
    return dict(suite.untried_contracts()) if isinstance(suite, WatchedSuite) else {}


def _result(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
) -> dict[str, str]:
    outcome, reason = str(report.outcome), _shorten(_reason(report))
    if outcome == "failed" and call.excinfo is not None:
        test = getattr(item, "originalname", item.name)
        origin = find_origin(call.excinfo.value, getattr(item, "instance", None), test)
        reason += origin.location
        if report.when == "setup":
            outcome, reason = "error", f"no environment: {reason}"
        elif origin.hook:
            outcome, reason = "error", f"error in the hook {origin.hook}: {reason}"
    return {"outcome": outcome, "reason": reason}


def _reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):  # a skip: file, line and reason
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(report.longrepr or "") if crash is None else str(crash.message)


def _class_location(error: MissingHooks) -> str:
    """Return the line of the class that was refused: the last frame outside netfw."""
    found = [(frame, line) for frame, line in frames_of(error) if package_of(frame) != "netfw"]
    frame, line = found[-1]
    return f" (in {frame.f_code.co_filename}, line {line})"


def _last_line(text: str) -> str:
    """Return the line of a traceback that has the error, with the file and line where it is."""
    errors = [line for line in text.splitlines() if line.startswith("E ")]
    located = _SYNTAX.findall(text) or _FRAME.findall(text)
    where = " (in {}, line {})".format(*located[-1]) if located else ""
    return errors[-1].removeprefix("E ") + where if errors else text


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_REASON else f"{line[: LONGEST_REASON - 3]}..."
