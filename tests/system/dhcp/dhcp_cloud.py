"""Networks of the API whose instances ask for their addresses."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from netfw.cli.demo.server_chapter import Cloud, ServedHost
from netfw.testing.lab.dhcp_client import Dhclient6, Udhcpc
from netfw.testing.lab.dhcp_lease import Lease
from netfw.testing.lab.instance import Instance

T = TypeVar("T")
PATIENCE = 40.0
_COUNTER = itertools.count(1)


def await_that(condition: Callable[[], T], what: str = "it") -> T:
    """What *condition* returns once that is true."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what}: not in {PATIENCE:g} s"
        time.sleep(0.02)
    return found


class DhcpNet:
    """A network, its ports, and the clients of the instances behind them."""

    def __init__(self, cloud: Cloud, name: str, **more: Any) -> None:
        self.cloud, self.number = cloud, next(_COUNTER)
        self.network = cloud.network.create_network(name=name, **more)
        self._ports: list[tuple[Any, ServedHost]] = []
        self._clients: list[Udhcpc | Dhclient6] = []

    def subnet(self, version: int, **more: Any) -> Any:
        cidr = f"10.{self.number}.0.0/24" if version == 4 else f"fd00:{self.number:x}::/64"
        return self.cloud.network.create_subnet(
            network_id=self.network.id, cidr=cidr, ip_version=version, **more
        )

    def port(self, host: int = 0, **more: Any) -> Any:
        """A port of an instance on a host; the instance is not there yet."""
        where = self.cloud.hosts[host]
        made = self.cloud.network.create_port(
            network_id=self.network.id, binding_host_id=where.host.name, **more
        )
        self._ports.append((made, where))
        return made

    def plug(self, port: Any) -> Instance:
        host = next(host for made, host in self._ports if made.id == port.id)
        return host.plug_port(port, f"i{next(_COUNTER)}", addressed=False)

    def client(self, port: Any) -> Udhcpc:
        """An IPv4 client of a new instance."""
        self._clients.append(client := Udhcpc(self.plug(port)))
        return client

    def client6(self, instance: Instance) -> Dhclient6:
        """An IPv6 client in an instance."""
        self._clients.append(client := Dhclient6(instance))
        return client

    def boot(self, host: int = 0, **more: Any) -> tuple[Any, Udhcpc, Lease]:
        """A port, an instance behind it, and the lease that it gets."""
        port = self.port(host, **more)
        client = self.client(port)
        return port, client, leased(client, port)

    def places(self) -> list[ServedHost]:
        """The hosts that serve it now, by what they have."""
        name = f"qdhcp-{self.network.id}"
        return [each for each in self.cloud.hosts if name in each.host.run(["ip", "netns"])]

    def files(self, host: ServedHost) -> Path:
        return host.dhcp.directory / "dhcp" / str(self.network.id)

    def server_pid(self, host: ServedHost) -> int | None:
        """The dnsmasq of this network, if it runs."""
        try:
            pid = int((self.files(host) / "pid").read_text())
            os.kill(pid, 0)
        except (OSError, ValueError):
            return None
        return pid

    def kill_server(self, host: ServedHost) -> int:
        """End its dnsmasq as a crash would; the pid that it had."""
        pid = await_that(lambda: self.server_pid(host), "dnsmasq runs")
        os.kill(pid, signal.SIGKILL)
        return pid

    def remove(self) -> None:
        for client in self._clients:
            client.close()
        for port, host in self._ports:
            host.unplug_port(port)
            self.cloud.network.delete_port(port.id)
        self.cloud.network.delete_network(self.network.id)


def address(port: Any) -> str:
    return str(port.fixed_ips[0]["ip_address"])


def leased(client: Udhcpc, port: Any) -> Lease:
    """The lease that it gets, which is for the port's own address."""
    lease = client.lease()
    assert lease is not None, f"nobody gave {address(port)}"
    assert str(lease.ip) == address(port)
    return lease
