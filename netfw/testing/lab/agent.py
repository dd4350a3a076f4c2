"""A private agent on a host of a lab: a process, a directory, its files in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from netfw.errors import BackendBroken
from netfw.testing.lab.host import Host
from netfw.testing.lab.ini import Groups, ini

START_SECONDS = 60.0
END_SECONDS = 30.0


class PrivateAgent:
    """The agent of *module*, run as its console script runs it, on *host*.

    *options* are groups of its configuration; they override those of the directory.  What it made
    on the host stays when it ends.
    """

    def __init__(self, host: Host, directory: Path, module: str, options: Groups) -> None:
        self.host, self.directory = host, directory
        self._module = module
        self.options: dict[str, dict[str, object]] = {
            "DEFAULT": {"host": host.name, "state_path": directory},
            "agent": {"status_file": directory / "status.json"},
        }
        for group, values in options.items():
            self.options.setdefault(group, {}).update(values)
        self.environment: dict[str, str] = {}
        """Environment variables beside those of this process."""
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def conf(self) -> Path:
        return self.directory / "agent.conf"

    @property
    def log(self) -> Path:
        """Its log, over all starts."""
        return self.directory / "agent.log"

    @property
    def pid(self) -> int:
        """The id of the running process."""
        if self.process is None:
            raise BackendBroken(f"{self._module} is not running on {self.host.name}")
        return self.process.pid

    def status(self) -> dict[str, Any]:
        """Return the content of its status file; empty while there is none."""
        try:
            return dict(json.loads((self.directory / "status.json").read_text()))
        except (OSError, ValueError):
            return {}

    def begin(self) -> None:
        """Start it, and return without waiting."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.conf.write_text(ini(self.options))
        (self.directory / "status.json").unlink(missing_ok=True)
        argv = [sys.executable, "-m", self._module, "--config-file", str(self.conf)]
        with self.log.open("ab") as log:
            self.process = self.host.spawn(
                argv,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONFAULTHANDLER": "1", **self.environment},
            )

    def start(self) -> float:
        """Start it and wait until it is ready; return the seconds that took.

        :raises BackendBroken: it ends instead, or is not ready in time; with its log.
        """
        began = time.monotonic()
        self.begin()
        self.wait_for(lambda status: bool(status.get("ready")))
        return time.monotonic() - began

    def wait_for(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until its status meets the condition.

        :raises BackendBroken: it ends instead, or time passes; with its log.
        """
        deadline = time.monotonic() + START_SECONDS
        while not condition(status := self.status()):
            ended = self.process is None or self.process.poll() is not None
            if ended or time.monotonic() > deadline:
                log_tail = self.log.read_text(errors="replace")[-3000:]
                how = "ended" if ended else f"is not so in {START_SECONDS:g} s: {status}"
                raise BackendBroken(f"{self._module} on {self.host.name} {how}: {log_tail}")
            time.sleep(0.02)
        return status

    def stop(self) -> int:
        """Stop it, and wait; return its exit status.

        :raises BackendBroken: it does not, and was killed; with what each of its threads did.
        """
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """Kill it, as a crash would."""
        return self._end(signal.SIGKILL)

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
            log_tail = self.log.read_text(errors="replace")[-6000:]
            what = (
                f"{self._module} on {self.host.name} did not end in {END_SECONDS:g} s: {log_tail}"
            )
            raise BackendBroken(what) from None
