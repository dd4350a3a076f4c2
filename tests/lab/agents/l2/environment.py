"""Hosts that run the L2 agent on a topology file, and instances plugged as a hypervisor would."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.wait import wait_until

AGENT = [sys.executable, "-m", "netfw.cli.agents.l2"]
PLAN = [sys.executable, "-m", "netfw.cli.commands.main", "plan"]


def port_id(number: int) -> str:
    return str(UUID(int=1000 + number))


def mac(number: int) -> str:
    return f"fa:16:3e:00:01:{number:02x}"


class AgentHost:
    """A lab host with a configuration for the agent; ``topology`` is shared by all hosts."""

    def __init__(self, host: Host, topology: Path) -> None:
        self.host, self.topology = host, topology
        self.directory = topology.parent / host.name
        self.directory.mkdir()
        self.conf = self.directory / "agent.conf"
        self.status_file = self.directory / "status.json"
        self.log = self.directory / "agent.log"
        self.process: Any = None

    def configure(self, switch: str = "", agent: str = "", remote: str = "", **more: str) -> None:
        groups = {
            "openvswitch": f"""
                datapath_type = netdev
                ovsdb_connection = {remote or self.host.ovs.remote}
                ovsdb_timeout = 5
                {switch}""",
            "agent": f"""
                status_file = {self.status_file}
                retry_interval = 0.1
                retry_interval_max = 1
                {agent}""",
            "file": f"""
                path = {self.topology}
                status_path = {self.directory}/said
                poll = 0.05
                debounce = 0""",
            "DEFAULT": f"host = {self.host.name}\nlog_file = {self.log}\nlog_level = debug",
            **more,
        }
        text = "\n".join(f"[{name}]\n{_flush_left(body)}" for name, body in groups.items())
        self.conf.write_text(text)

    @property
    def arguments(self) -> list[str]:
        return ["--config-file", str(self.conf)]

    def start(self) -> None:
        self.status_file.unlink(missing_ok=True)
        self.process = self.host.spawn([*AGENT, *self.arguments])

    def start_ready(self) -> None:
        self.start()
        self.wait(lambda status: status["ready"])

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(60) == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)

    def status(self) -> dict[str, Any] | None:
        if self.process is not None and self.process.poll() is not None:
            raise AssertionError(f"the agent ended: {self.log.read_text()[-3000:]}")
        try:
            found: dict[str, Any] = json.loads(self.status_file.read_text())
        except FileNotFoundError:
            return None
        return found

    def wait(self, condition: Callable[[dict[str, Any]], bool]) -> None:
        def so() -> bool:
            status = self.status()
            return status is not None and condition(status)

        wait_until(so, lambda: f"{self.status()}\n{self.log.read_text()[-5000:]}")

    def reported(self) -> dict[str, Any]:
        """Return the reports of the agent, by port."""
        path = Path(f"{self.directory}/said.{self.host.name}.l2.json")
        return json.loads(path.read_text()) if path.exists() else {}

    def once(self, seconds: float = 60) -> Any:
        return self.host.attempt([*AGENT, *self.arguments, "--once", "--timeout", str(seconds)])

    def plan(self, *more: str) -> Any:
        return self.host.attempt([*PLAN, *self.arguments, *more])

    def instance(self, number: int, *, network: int = 0) -> Instance:
        """Make instance 10.<network>.0.<number>, with a device for port <number>."""
        return self.host.instance(
            f"vm{number}",
            Plug(
                bridge="br-int",
                device=f"tap{number}",
                mac=mac(number),
                addresses=(f"10.{network}.0.{number}/24",),
                mtu=1450,
                external_ids={"iface-id": port_id(number), "attached-mac": mac(number)},
            ),
        )

    def flows(self, bridge: str = "br-int") -> set[str]:
        text = self.host.run(["ovs-ofctl", "-O", "OpenFlow13", "--no-stats", "dump-flows", bridge])
        return {line.strip() for line in text.splitlines() if "table" in line}

    def tag(self, number: int) -> str:
        return self.host.run(["ovs-vsctl", "get", "Port", f"tap{number}", "tag"]).strip()


def _flush_left(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines())


class Topology:
    """The file that all agents of a test read."""

    def __init__(self, path: Path, hosts: list[Host]) -> None:
        self.path = path
        self.content: dict[str, Any] = {
            "hosts": {host.name: {"local_ip": str(host.address.ip)} for host in hosts},
            "networks": [], "subnets": [], "ports": [],
        }  # fmt: skip

    def network(self, number: int, **provider: Any) -> None:
        given = {"network_type": "vxlan", "segmentation_id": 100 + number, **provider}
        given = {name: value for name, value in given.items() if value is not None}
        self.content["networks"].append({"name": f"net{number}", **given})
        self.content["subnets"].append(
            {"name": f"sub{number}", "network": f"net{number}", "cidr": f"10.{number}.0.0/24"}
        )

    def port(self, number: int, host: str, network: int = 0, **more: Any) -> None:
        self.content["ports"] = [p for p in self.content["ports"] if p["id"] != port_id(number)]
        self.content["ports"].append(
            {
                "name": f"port{number}", "id": port_id(number), "network": f"net{network}",
                "host": host, "mac_address": mac(number), "fixed_ips": [f"10.{network}.0.{number}"],
                **more,
            }
        )  # fmt: skip

    def remove(self, number: int) -> None:
        self.content["ports"] = [p for p in self.content["ports"] if p["id"] != port_id(number)]

    def write(self) -> None:
        temporary = self.path.with_suffix(".new")
        temporary.write_text(json.dumps(self.content))
        temporary.rename(self.path)


class Cloud:
    """Hosts with agents, and what they should be."""

    def __init__(self, hosts: list[Host], directory: Path) -> None:
        path = directory / "topology.json"
        self.topology = Topology(path, hosts)
        self.hosts = {host.name: AgentHost(host, path) for host in hosts}
