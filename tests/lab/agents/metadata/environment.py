"""A metadata agent as a process, a metadata service, and proxies that are this test."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

from attrs import frozen

from netfw.testing.lab.daemon import PrivateDaemon
from netfw.testing.lab.ini import ini
from netfw.testing.lab.wait import wait_until

SECRET = "s3cret-of-the-service"
NETWORK = UUID(int=7001)
OTHER = UUID(int=7002)
ROUTER = UUID(int=8001)
PROJECT = "9d3c8c7fa5e24a4f8a5b7c2f53f9a001"
FIRST = 10
PORTS = 200

TOPOLOGY = f"""
hosts: {{host1: {{}}}}
networks:
  - {{id: {NETWORK}, name: blue, network_type: local}}
  - {{id: {OTHER}, name: red, network_type: local}}
subnets:
  - {{name: blue4, network: blue, cidr: 10.0.0.0/16}}
  - {{name: red4, network: red, cidr: 10.0.0.0/16}}
"""


def instance(number: int) -> str:
    return str(UUID(int=5000 + number))


def topology() -> str:
    """Return a topology with instances from 10.0.0.10 on one network; one is also on the other."""
    lines = [TOPOLOGY, "ports:"]
    lines += [
        f"  - {{name: p{number}, network: blue, project_id: {PROJECT}, host: host1, "
        f"device_id: {instance(number)}, fixed_ips: [{address(number)}]}}"
        for number in range(FIRST, FIRST + PORTS)
    ]
    lines.append(
        f"  - {{name: other, network: red, project_id: {PROJECT}, host: host1, "
        f"device_id: {instance(1)}, fixed_ips: [10.0.0.{FIRST}]}}"
    )
    lines.append(
        "  - {name: nobody, network: red, host: host1, fixed_ips: [10.0.0.200]}",
    )
    return "\n".join(lines) + "\n"


def address(number: int) -> str:
    return f"10.0.{number // 250}.{number % 250}"


@frozen(kw_only=True)
class Got:
    status: int
    body: bytes
    headers: Mapping[str, str]


class Agent(PrivateDaemon):
    """The agent in a directory, on a topology file unless *groups* say otherwise."""

    def __init__(self, directory: Path, port: int, **groups: Mapping[str, object]) -> None:
        super().__init__("the metadata agent", directory / "agent.log")
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.socket = directory / "run" / "proxy.sock"
        self.alive = directory / "alive"
        self.status_file = directory / "status.json"
        self.topology = directory / "topology.yaml"
        self.topology.write_text(topology())
        self.options: dict[str, dict[str, object]] = {
            "DEFAULT": {"host": "host1", "state_path": directory, "log_level": "debug"},
            "agent": {"status_file": self.status_file, "report_interval": 1},
            "file": {
                "path": self.topology,
                "status_path": directory / "said",
                "poll": 0.05,
                "debounce": 0,
            },
            "metadata": {
                "nova_metadata_host": "127.0.0.1",
                "nova_metadata_port": port,
                "metadata_proxy_shared_secret": SECRET,
                "metadata_proxy_socket": self.socket,
                "liveness_file": self.alive,
                "liveness_interval": 0.2,
            },
        }
        for group, values in groups.items():
            self.options.setdefault(group, {}).update(values)

    def configure(self, **metadata: object) -> None:
        self.options["metadata"].update(metadata)
        (self.directory / "agent.conf").write_text(ini(self.options))

    def spawn(self) -> subprocess.Popen[bytes]:
        self.configure()
        self.status_file.unlink(missing_ok=True)
        conf = str(self.directory / "agent.conf")
        return self.run([sys.executable, "-m", "netfw.cli.agents.metadata", "--config-file", conf])

    def start(self) -> None:
        self.spawn()
        self.wait(lambda status: status["ready"])

    def status(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self.status_file.read_text()))
        except FileNotFoundError:
            return {}

    def wait(self, condition: Callable[[dict[str, Any]], Any]) -> None:
        self.wait_until(lambda: bool(self.status() and condition(self.status())), self.status)

    def hang_up(self) -> None:
        """Make the agent read its files again."""
        before = self._taken_over()
        os.kill(self.pid, signal.SIGHUP)
        wait_until(lambda: self._taken_over() > before)

    def _taken_over(self) -> int:
        text = self.log.read_text()
        return text.count("the metadata service is ") + text.count("stays as it was")

    def dial(self) -> socket.socket:
        return dial(self.socket)

    def ask(
        self,
        target: str = "/latest/meta-data/",
        *,
        of: str | None = address(FIRST),
        network: object = NETWORK,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Got:
        """Ask as a proxy would, for who has the address *of* on *network*."""
        sent = dict(headers or {})
        if of is not None:
            sent["X-Forwarded-For"] = of
        if network is not None:
            sent["X-Neutron-Network-ID"] = str(network)
        connection = http.client.HTTPConnection("169.254.169.254", timeout=30)
        connection.sock = self.dial()
        with closing(connection):
            connection.request(method, target, body, sent)
            answer = connection.getresponse()
            return Got(
                status=answer.status, body=answer.read(), headers=dict(answer.headers.items())
            )


def dial(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(30)
    try:
        client.connect(str(path))
    except OSError:
        client.close()
        raise
    return client
