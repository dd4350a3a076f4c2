"""A shell that executes the commands of a tutorial, one after another."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from tests.system.tutorials.page import Command, FileContent

TIMEOUT = 240.0
"""Seconds for a command, and for its repetition: only a hung machine needs them."""
_READ_ONLY = ("/etc", "/usr", "/var")
_GUARDED = "; ".join(f"mount --bind {d} {d}; mount -o remount,bind,ro {d}" for d in _READ_ONLY)
_BASH = ["unshare", "--mount", "--propagation", "private", "sh", "-ec"]
_BASH += [f"{_GUARDED}; cd .; exec bash --norc --noprofile"]
"""A sandbox has a network of its own, yet the machine's files: a page must not change them."""
_MARK = "end-of-output-of-a-tutorial-command"


class TutorialShell:
    """A bash whose variables, directory and background jobs last from command to command."""

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self._home, self._environ = home, {**environ, "HOME": str(home)}
        self._script = home.with_suffix(".command")

    def __enter__(self) -> Self:
        self._bash = subprocess.Popen(
            _BASH,
            cwd=self._home,
            env=self._environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.close()
        self._bash.stdout.close()
        self._bash.wait(TIMEOUT)

    def execute(self, page: Path, steps: list[Command | FileContent]) -> None:
        """Execute the steps of *page*.

        :raises AssertionError: the page is wrong; with its line, and what was seen instead.
        """
        for step in steps:
            if isinstance(step, FileContent):
                self.directory.joinpath(step.name).write_text(step.text)
            else:
                self._check(page, step)

    @property
    def directory(self) -> Path:
        """The directory that the shell is in."""
        return Path(os.readlink(f"/proc/{self._bash.pid}/cwd"))

    def _check(self, page: Path, command: Command) -> None:
        name = f"{page.name}:{command.line}: $ {command.text}"
        deadline = time.monotonic() + TIMEOUT
        while True:
            output, status = self._run(command.text, name)
            right = command.matches(output) and (status == 0 or command.may_fail)
            if right or not command.repeated or time.monotonic() > deadline:
                break
            time.sleep(0.2)  # what the reader does, too: look again
        assert right, (
            f"{name}\nprinted on the page:\n{command.output}\nseen (status {status}):\n{output}"
        )

    def _run(self, text: str, name: str) -> tuple[str, int]:
        """Return the output and the status of a command; the next one finds its status in $?."""
        assert self._bash.stdin is not None
        self._script.write_text(f"{text}\n")
        line = f'. {self._script} </dev/null; (s=$?; echo; echo "{_MARK} $s"; exit $s)\n'
        self._bash.stdin.write(line.encode())
        self._bash.stdin.flush()
        seen = b""
        for data in self._received():
            seen += data
            output, found, status = seen.decode(errors="replace").rpartition(f"\n{_MARK} ")
            if found and status.endswith("\n"):
                return output, int(status)
        raise AssertionError(f"{name}\nthe shell ended, after:\n{seen.decode(errors='replace')}")

    def _received(self) -> Iterator[bytes]:
        assert self._bash.stdout is not None
        descriptor = self._bash.stdout.fileno()
        deadline = time.monotonic() + TIMEOUT
        while select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            data = os.read(descriptor, 65536)
            if not data:
                return
            yield data
        raise AssertionError(f"no end after {TIMEOUT:.0f} s")
