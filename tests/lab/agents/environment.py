"""A lab host that runs the L2 agent and another one, as processes, on one topology file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.host import Host
from netfw.testing.lab.ini import ini


class TopologySite:
    """The host, its topology and its agents; *service* is that of the agent under test.

    *options* are groups of its configuration, beside those that all agents here have.
    """

    def __init__(
        self,
        host: Host,
        directory: Path,
        service: str,
        content: dict[str, Any],
        **options: dict[str, object],
    ) -> None:
        self.host, self.directory = host, directory
        self.path = directory / "topology.json"
        self.content: dict[str, Any] = {"hosts": {host.name: {}}, **content}
        self.write()
        self._service = service
        self.wiring = self._agent("l2", {})
        self.agent = self._agent(service, options)

    def _agent(self, name: str, options: dict[str, dict[str, object]]) -> PrivateAgent:
        groups: dict[str, dict[str, object]] = {
            "DEFAULT": {"log_level": "debug"},
            "agent": {"retry_interval": 0.1},
            "file": {
                "path": self.path,
                "status_path": self._status_path(name),
                "poll": 0.05,
                "debounce": 0,
            },
            "openvswitch": {"datapath_type": "netdev", "ovsdb_connection": self.host.ovs.remote},
            **options,
        }
        return PrivateAgent(self.host, self.directory / name, f"netfw.cli.agents.{name}", groups)

    def _status_path(self, name: str) -> Path:
        return self.directory / f"reported-{name}"

    def write(self) -> None:
        """Put the topology into force."""
        temporary = self.path.with_suffix(".new")
        temporary.write_text(json.dumps(self.content))
        temporary.rename(self.path)

    def start(self) -> None:
        """Start both agents, and wait until everything is converged."""
        self.wiring.start()
        self.agent.start()

    def plan(self) -> Any:
        """Run ``plan`` of the agent, and return the result of the command."""
        self.agent.directory.mkdir(exist_ok=True)
        self.agent.conf.write_text(ini(self.agent.options))
        words = ["netfw.cli.commands.main", "plan", "--agent", self._service, "--config-file"]
        return self.host.attempt([sys.executable, "-m", *words, str(self.agent.conf)])

    def status_reports(self) -> dict[str, Any]:
        """Return the content of the status file in which the source records the agent's reports."""
        path = Path(f"{self._status_path(self._service)}.{self.host.name}.{self._service}.json")
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def close(self) -> None:
        for agent in (self.agent, self.wiring):
            agent.kill()
