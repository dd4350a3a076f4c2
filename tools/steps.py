"""Run several make targets side by side and print a summary: what `make test` does.

A step takes one share of the machine, or as many as follow its name (`unit:2`, or 0 for one that
mostly waits); there are two shares per core, since a step waits about as often as it computes.
Steps start in the given order, so the longest come first. Steps that only compute (`unit:low`) run
beside them, one per core, at a low priority: they use the time in which the others wait; one that
starts when no others are left has the usual priority. Steps that measure (`system-l2-faults:last`)
start when all others but these have ended. When a step has ended, its output is printed: all of it
if it failed, else the last lines. The summary names the failed tests again, since CI shows the end
only. SIGINT, SIGTERM and SIGHUP end the steps, too: each has a process group of its own.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

CORES = os.cpu_count() or 1
SHARES = 2 * CORES
LOW_PRIORITY = "10"
PASSED_LINES = 3
"""Lines of output that a step that passed prints."""
SUMMARY_LINES = 50
"""Lines of output that the summary repeats of a step that failed."""
ENDED_BY = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end the steps, but for those that are ignored from the start."""
ENDING_TEXT = b"\n== ending the steps; this takes up to a minute\n"
ENDING_SECONDS = 15.0
"""Time that a step has to end after each signal: tests remove what they made."""
_FAILED_TEST = re.compile(rb"(FAILED|ERROR) \S")  # of pytest; a log has more spaces


@dataclass
class Step:
    """A make target and its result."""

    name: str
    shares: int
    last: bool = False
    low: bool = False
    begun: float = 0.0
    seconds: float = 0.0
    work: float = 0.0
    passed: bool = False
    output: bytes = b""

    @classmethod
    def named(cls, word: str) -> Step:
        name, _, suffix = word.partition(":")
        if suffix in ("last", "low"):
            return cls(name, 1, last=suffix == "last", low=suffix == "low")
        return cls(name, min(int(suffix or 1), SHARES))

    def can_start(self, running: Collection[Step]) -> bool:
        """Return whether the machine has room for it beside the *running* steps."""
        alike = [step for step in running if step.low == self.low]
        free = (CORES if self.low else SHARES) - sum(step.shares for step in alike)
        return self.shares <= free and all(step.last == self.last for step in alike)

    def start(self, place: Path, others: Iterable[Step]) -> int:
        """Start the target with its output in a file in *place*; return its pid.

        Its priority is low only beside *others* that are not: alone, it would wait for work that is
        not of this run.
        """
        self.begun = time.monotonic()
        output = os.open(place / self.name, os.O_WRONLY | os.O_CREAT)
        low = self.low and not all(step.low for step in others)
        priority = ["nice", "-n", LOW_PRIORITY] if low else []
        argv = [*priority, "make", "--no-print-directory", self.name]
        pid = os.posix_spawnp(
            argv[0],
            argv,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),  # no prompt could be seen
                *((os.POSIX_SPAWN_DUP2, output, stream) for stream in (1, 2)),
            ],
            setpgroup=0,
            setsigmask=signal.pthread_sigmask(signal.SIG_BLOCK, ()) - {*ENDED_BY},
        )
        os.close(output)
        return pid

    def end(self, place: Path, status: int, work: float) -> None:
        self.seconds, self.work = time.monotonic() - self.begun, work
        self.passed = os.waitstatus_to_exitcode(status) == 0
        self.output = (place / self.name).read_bytes()
        write(self.last_lines(PASSED_LINES) if self.passed else self.output.splitlines())
        say(f"== {self.line()}")

    def last_lines(self, count: int) -> list[bytes]:
        return [line for line in self.output.splitlines() if line.strip()][-count:]

    def failed_tests(self) -> list[bytes]:
        """Return the lines that name failed tests, or the last ones of a step without tests."""
        tests = [line for line in self.output.splitlines() if _FAILED_TEST.match(line)]
        more = len(tests) - SUMMARY_LINES
        rest = [f"... and {more} more".encode()] if more > 0 else []
        return [*tests[:SUMMARY_LINES], *rest] or self.last_lines(PASSED_LINES)

    def line(self) -> str:
        word = "ok" if self.passed else "FAILED"
        return f"{word:7}{self.name:20}{self.seconds:7.1f} s{self.work:8.1f} s of CPU"


def say(text: str) -> None:
    print(text, flush=True)


def write(lines: list[bytes], indent: bytes = b"") -> None:
    """Write lines as they are, whatever their encoding."""
    sys.stdout.flush()
    sys.stdout.buffer.writelines(indent + line + b"\n" for line in lines)
    sys.stdout.flush()


def run(steps: list[Step], place: Path) -> None:
    running: dict[int, Step] = {}
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # and so by the steps
    try:
        _run(sorted(steps, key=lambda step: step.last), running, place)
    finally:
        end_groups(running, (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)[is_ignored:])


def _run(waiting: list[Step], running: dict[int, Step], place: Path) -> None:
    while waiting or running:
        step = next((step for step in waiting if step.can_start(running.values())), None)
        if step is not None:
            waiting.remove(step)
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDED_BY)  # until the step is known
            running[step.start(place, [*waiting, *running.values()])] = step
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDED_BY)
            say(f"== {step.name} begins")
        else:
            pid, status, usage = os.wait4(-1, 0)
            running.pop(pid).end(place, status, usage.ru_utime + usage.ru_stime)


def end_groups(groups: Iterable[int], signals: Iterable[int]) -> None:
    """End process groups by *signals*, each sent when the one before did not end them in time."""
    for number in signals:
        groups = [group for group in groups if _signal_group(group, number)]
        deadline = time.monotonic() + ENDING_SECONDS
        while groups and time.monotonic() < deadline:
            time.sleep(0.1)
            groups = [group for group in groups if _signal_group(group, 0)]


def _signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; return whether it has processes."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(group, os.WNOHANG)  # its first process is a child of this one
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # gone, or of other users
        return False
    return True


def exit_by_signal(number: int, frame: FrameType | None) -> NoReturn:
    """Exit, and let no further signal interrupt the end of the steps."""
    for each in ENDED_BY:
        signal.signal(each, signal.SIG_IGN)
    os.write(1, ENDING_TEXT)
    sys.exit(128 + number)


def main(words: list[str]) -> int:
    for number in ENDED_BY:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, exit_by_signal)
    begun, steps = time.monotonic(), [Step.named(word) for word in words]
    with tempfile.TemporaryDirectory() as place:
        run(steps, Path(place))
    seconds, work = time.monotonic() - begun, sum(step.work for step in steps)
    say("\nSummary")
    for step in steps:
        say(f"  {step.line()}")
        if not step.passed:
            write(step.failed_tests(), b"         ")
    say(f"  {'':7}{'total':20}{seconds:7.1f} s{work:8.1f} s of CPU on {CORES} cores")
    return 0 if all(step.passed for step in steps) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
