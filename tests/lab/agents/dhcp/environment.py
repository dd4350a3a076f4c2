"""A lab host with a DHCP agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

from netfw.testing.lab.dhcp_client import Udhcpc
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance, Plug
from tests.lab.agents.environment import TopologySite

NETWORK = str(UUID(int=1))
NAMESPACE = f"qdhcp-{NETWORK}"


def port_id(number: int) -> str:
    return str(UUID(int=1000 + number))


def mac(number: int) -> str:
    return f"fa:16:3e:00:02:{number:02x}"


class Site(TopologySite):
    """A host with DHCP servers and their clients."""

    def __init__(self, host: Host, directory: Path) -> None:
        content = {
            "networks": [{"id": NETWORK, "name": "net", "network_type": "local"}],
            "subnets": [{"name": "sub", "network": "net", "cidr": "10.0.0.0/24"}],
            "ports": [
                {"name": "server", "id": port_id(0), "network": "net", "host": host.name,
                 "mac_address": mac(0), "device_owner": "network:dhcp", "fixed_ips": ["10.0.0.2"],
                 "port_security_enabled": False}
            ],
            "assignments": [{"service": "dhcp", "host": host.name, "network": "net"}],
        }  # fmt: skip
        super().__init__(host, directory, "dhcp", content, dnsmasq={"dnsmasq_user": "root"})
        self.dhcp = self.agent
        self._clients: list[Udhcpc] = []

    def port(self, number: int, **more: Any) -> None:
        """Add port 10.0.0.<number>; it is in force after `write`."""
        self.remove(number)
        self.content["ports"].append(
            {"name": f"port{number}", "id": port_id(number), "network": "net",
             "host": self.host.name, "mac_address": mac(number),
             "fixed_ips": [f"10.0.0.{number}"], "port_security_enabled": False, **more}
        )  # fmt: skip

    def remove(self, number: int) -> None:
        self.content["ports"] = [p for p in self.content["ports"] if p["id"] != port_id(number)]

    def network(self, number: int) -> str:
        """Add another network that is served, and return its id."""
        id, name = str(UUID(int=number)), f"net{number}"
        content, host = self.content, self.host.name
        content["networks"].append({"id": id, "name": name, "network_type": "local"})
        content["subnets"].append({"name": name, "network": name, "cidr": f"10.{number}.0.0/24"})
        content["ports"].append(
            {"name": name, "id": str(UUID(int=(number << 96) + 1)), "network": name, "host": host,
             "mac_address": f"fa:16:3e:00:03:{number:02x}", "device_owner": "network:dhcp",
             "fixed_ips": [f"10.{number}.0.2"], "port_security_enabled": False}
        )  # fmt: skip
        content["assignments"].append({"service": "dhcp", "host": host, "network": name})
        return id

    def answer(self, client: Udhcpc) -> str:
        """Return the answer of the metadata proxy to the instance of *client*; empty: none."""
        client.instance.run(["ip", "route", "replace", "169.254.169.254", "via", "10.0.0.2"])
        url = "http://169.254.169.254/latest"
        words = ["curl", "-s", "-m", "2", "-o", "/dev/null", "-w", "%{http_code}", url]
        done = client.instance.attempt(words)
        return done.output if done.status == 0 else ""

    def instance(self, number: int) -> Instance:
        """Make the instance of a port, without an address."""
        plug = Plug(
            bridge="br-int",
            device=f"tap{number}",
            mac=mac(number),
            external_ids={"iface-id": port_id(number), "attached-mac": mac(number)},
        )
        return self.host.instance(f"vm{number}", plug)

    def client(self, number: int) -> Udhcpc:
        """Make a DHCP client in the instance of a port."""
        self._clients.append(Udhcpc(self.instance(number), timeout=30.0))
        return self._clients[-1]

    def pid(self, network: str = NETWORK) -> int | None:
        """Return the pid of the dnsmasq that serves a network."""
        return next(iter(self.processes(network, (b"dnsmasq",))), None)

    def processes(
        self, network: str = NETWORK, names: tuple[bytes, ...] = (b"dnsmasq", b"haproxy")
    ) -> set[int]:
        """Return the pids of the processes that run for a network."""
        found = set()
        for directory in Path("/proc").iterdir():
            if directory.name.isdecimal():
                try:
                    words = (directory / "cmdline").read_bytes()
                except OSError:
                    continue
                if words.startswith(names) and network.encode() in words:
                    found.add(int(directory.name))
        return found

    def close(self) -> None:
        for client in self._clients:
            client.close()
        super().close()
