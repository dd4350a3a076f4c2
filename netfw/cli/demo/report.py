"""The demo's output: steps, quotations, checks and their summary."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType

LOG_LINES = 6
"""Lines that are printed of each log: the last ones."""


class DemoReport:
    """Steps, quotations and checks on standard output, and a table of the checks at the end."""

    def __init__(self) -> None:
        self._checks: list[tuple[str, bool]] = []
        self._steps = 0
        self._colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def section(self, text: str, logs: Sequence[Path] = ()) -> DemoSection:
        """Open a section with this title; see `DemoSection`."""
        return DemoSection(self, text, logs)

    @property
    def failures(self) -> int:
        """Number of checks that failed so far."""
        return sum(not passed for _, passed in self._checks)

    def title(self, text: str) -> None:
        print(f"\n{self._paint('1', text)}\n{'=' * len(text)}", flush=True)

    def step(self, text: str, lines: Iterable[str] = ()) -> None:
        """Start a numbered step, with some lines about it."""
        self._steps += 1
        print(f"\n{self._paint('1', f'{self._steps}. {text}')}")
        for line in lines:
            self.say(line)

    def say(self, text: str) -> None:
        print(f"   {text}", flush=True)

    def quote(self, lines: Iterable[str]) -> None:
        """Print output of the machine, indented."""
        for line in lines:
            print(self._paint("2", f"     | {line}"))
        sys.stdout.flush()

    def check(self, text: str, passed: bool) -> None:
        """Record a check and print its result."""
        self._checks.append((text, passed))
        print(f"   {self._result(passed)} {text}", flush=True)

    def summary(self, seconds: float) -> int:
        """Print all checks; return the exit status, 0 when every one is ok."""
        print(f"\n{self._paint('1', 'Checks')}")
        for text, passed in self._checks:
            print(f"  {self._result(passed)}  {text}")
        failed = self.failures
        print(f"\n{len(self._checks) - failed} ok, {failed} failed, in {seconds:.1f} s")
        return 1 if failed or not self._checks else 0

    def _result(self, passed: bool) -> str:
        return self._paint("32", "ok    ") if passed else self._paint("31", "failed")

    def _paint(self, code: str, text: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self._colour else text


class DemoSection:
    """A part of the demo; an exception in it is a failed check and ends this part only.

    When a check failed, warnings and errors in *logs* are printed, as the files are temporary.
    """

    def __init__(self, report: DemoReport, title: str, logs: Sequence[Path]) -> None:
        self._report, self._title, self._logs = report, title, logs
        self._failures = 0

    def __enter__(self) -> None:
        self._failures = self._report.failures
        self._report.title(self._title)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if error is not None and not isinstance(error, Exception):
            return False
        if error is not None:
            self._report.check(f"{self._title.partition(':')[0]}: {type(error).__name__}", False)
            self._report.quote(str(error).strip().splitlines()[:LOG_LINES])
        if self._report.failures > self._failures:
            for log in self._logs:
                self._show(log)
        return True

    def _show(self, log: Path) -> None:
        text = log.read_text(errors="replace") if log.exists() else ""
        warnings = [line for line in text.splitlines() if " WARNING " in line or " ERROR " in line]
        if warnings:
            self._report.say(f"the last warnings in {log}:")
            self._report.quote(warnings[-LOG_LINES:])
