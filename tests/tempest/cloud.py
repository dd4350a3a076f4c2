"""The processes of a Tempest run: a stand-in for Keystone, netfw-server, and a host with agents."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from netfw.testing.lab.wait import wait_until
from tests.tempest.agent_host import running_agents

HERE = Path(__file__).parent
START = 120.0
EXTERNAL = "public"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def running(command: list, log: Path) -> Iterator[subprocess.Popen]:
    """Run a process in the directory of its *log* within the ``with`` statement."""
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, cwd=log.parent)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.communicate(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


class Cloud:
    """The server and the stand-in, and an administrator's way to both."""

    def __init__(self, identity: str, network: str) -> None:
        self.identity, self.network = identity, network
        self.token = ""

    def call(self, method: str, url: str, body: object = None) -> tuple[dict, dict]:
        headers = {"X-Auth-Token": self.token, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return dict(answer.headers), json.loads(answer.read() or b"{}")

    def log_in(self) -> None:
        domain = {"id": "default"}
        user = {"name": "admin", "password": "admin", "domain": domain}
        proof = {"methods": ["password"], "password": {"user": user}}
        scope = {"project": {"name": "admin", "domain": domain}}
        requested = {"auth": {"identity": proof, "scope": scope}}
        headers, _ = self.call("POST", f"{self.identity}/auth/tokens", requested)
        self.token = headers["X-Subject-Token"]

    def is_ready(self) -> bool:
        try:
            self.call("GET", f"{self.network}/v2.0/networks")
        except OSError:
            return False
        return True

    def agents(self) -> list[dict]:
        return self.call("GET", f"{self.network}/v2.0/agents")[1]["agents"]

    def make_external_network(self) -> str:
        network = {"name": EXTERNAL, "router:external": True, "shared": False}
        _, made = self.call("POST", f"{self.network}/v2.0/networks", {"network": network})
        id = made["network"]["id"]
        subnet = {"network_id": id, "ip_version": 4, "cidr": "203.0.113.0/24"}
        self.call(
            "POST", f"{self.network}/v2.0/subnets", {"subnet": {**subnet, "enable_dhcp": False}}
        )
        return id

    def make_default_pools(self) -> None:
        """Make the default pools, from which topologies are allocated; all projects see them."""
        for prefix, length in {"10.192.0.0/12": 24, "fd00:192::/32": 64}.items():
            pool = {"name": "default", "prefixes": [prefix], "default_prefixlen": length}
            pool |= {"min_prefixlen": length, "is_default": True, "shared": True}
            self.call("POST", f"{self.network}/v2.0/subnetpools", {"subnetpool": pool})

    def extensions(self) -> list[str]:
        _, found = self.call("GET", f"{self.network}/v2.0/extensions")
        return sorted(each["alias"] for each in found["extensions"])


@contextlib.contextmanager
def running_cloud(command: list[str], run: Path) -> Iterator[Cloud]:
    """Run all processes, with files in the directory *run*; no network is made yet."""
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    port = free_port()
    network = f"http://127.0.0.1:{port}"
    stand_in = [sys.executable, HERE / "keystone_stand_in.py", "--network", network]
    with running(stand_in, run / "keystone.log") as keystone:
        assert keystone.stdout is not None
        identity = json.loads(keystone.stdout.readline())["url"]
        (run / "netfw.conf").write_text(
            (HERE / "netfw.conf").read_text().format(run=run, port=port, identity=identity)
        )
        with running([*command, "--config-file", run / "netfw.conf"], run / "server.log"):
            made = Cloud(identity, network)
            made.log_in()
            wait_until(made.is_ready, f"netfw-server answers; see {run}/server.log", seconds=START)
            with running_agents(run / "messages.sock", run) as agents:
                wait_until(
                    lambda: len(made.agents()) == len(agents),
                    f"{len(agents)} agents report; see {run}",
                    seconds=START,
                )
                yield made
