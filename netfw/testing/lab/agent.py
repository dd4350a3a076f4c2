"""A private agent on a host of a lab: a process, a directory, its files in it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from netfw.testing.lab.daemon import PrivateDaemon
from netfw.testing.lab.host import Host
from netfw.testing.lab.ini import Groups, ini


class PrivateAgent(PrivateDaemon):
    """The agent of *module*, run as its console script runs it, on *host*.

    *options* are groups of its configuration; they override those of the directory.  What it made
    on the host stays when it ends.
    """

    def __init__(self, host: Host, directory: Path, module: str, options: Groups) -> None:
        name = f"{module} on {host.name}"
        super().__init__(name, directory / "agent.log", host.spawn)
        self.host, self.directory = host, directory
        self._module = module
        self.options: dict[str, dict[str, object]] = {
            "DEFAULT": {"host": host.name, "state_path": directory},
            "agent": {"status_file": directory / "status.json"},
        }
        for group, values in options.items():
            self.options.setdefault(group, {}).update(values)

    @property
    def conf(self) -> Path:
        return self.directory / "agent.conf"

    def status(self) -> dict[str, Any]:
        """Return the content of its status file; empty while there is none."""
        try:
            return dict(json.loads((self.directory / "status.json").read_text()))
        except (OSError, ValueError):
            return {}

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start it, and return without waiting."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.conf.write_text(ini(self.options))
        (self.directory / "status.json").unlink(missing_ok=True)
        return self.run([self.python, "-m", self._module, "--config-file", str(self.conf)])

    def start(self) -> float:
        """Start it and wait until it is ready; return the seconds that took.

        :raises BackendBroken: it ends instead, or is not ready in time; with its log.
        """
        began = time.monotonic()
        self.spawn()
        self.wait_for(lambda status: bool(status.get("ready")))
        return time.monotonic() - began

    def wait_for(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until its status meets the condition.

        :raises BackendBroken: it ends instead, or time passes; with its log.
        """
        self.wait_until(lambda: condition(self.status()), self.status)
        return self.status()
