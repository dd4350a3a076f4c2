"""A private process with a log: started, stopped and killed by a test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from netfw.errors import BackendBroken

START_SECONDS = 60.0
END_SECONDS = 30.0
_TAIL = 3000
"""Characters of the log in an error."""


class PrivateDaemon:
    """A process that is named *name* in errors and writes to *log*.

    *spawn* starts it, with the arguments of :class:`subprocess.Popen`.
    """

    def __init__(
        self,
        name: str,
        log: Path,
        spawn: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen,
    ) -> None:
        self.name, self.log = name, log
        self.environment: dict[str, str] = {}
        """Environment variables beside those of this process."""
        self.python = sys.executable
        """Interpreter of a daemon that is a Python module: another environment, another release."""
        self.process: subprocess.Popen[bytes] | None = None
        self._spawn = spawn

    @property
    def pid(self) -> int:
        """The id of the process that was started."""
        if self.process is None:
            raise BackendBroken(f"{self.name} is not running")
        return self.process.pid

    def run(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start the process, and return without waiting."""
        environment = {**os.environ, "PYTHONFAULTHANDLER": "1", **self.environment}
        with self.log.open("ab") as log:
            self.process = self._spawn(argv, stdout=log, stderr=subprocess.STDOUT, env=environment)
        return self.process

    def wait_until(self, condition: Callable[[], bool], state: Callable[[], object]) -> None:
        """Wait until *condition* holds while the process runs; *state* is reported if it does not.

        :raises BackendBroken: it ends, or time passes; with its log.
        """
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            ended = self.process is None or self.process.poll() is not None
            if ended or time.monotonic() > deadline:
                reason = "ended" if ended else f"is not ready in {START_SECONDS:g} s: {state()}"
                raise BackendBroken(f"{self.name} {reason}: {self.log_tail()}")
            time.sleep(0.02)

    def stop(self) -> int:
        """Stop it, and wait; return its exit status.

        :raises BackendBroken: it does not end, and was killed; with the stacks of its threads.
        """
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """Kill it, as a crash would."""
        return self._end(signal.SIGKILL)

    def log_tail(self, length: int = _TAIL) -> str:
        """Return the end of the log."""
        return self.log.read_text(errors="replace")[-length:]

    def _end(self, number: signal.Signals) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            process.wait()
            late = f"{self.name} did not end in {END_SECONDS:g} s"
            raise BackendBroken(f"{late}: {self.log_tail(2 * _TAIL)}") from None
