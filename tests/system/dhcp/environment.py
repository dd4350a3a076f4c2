"""Networks of the API whose instances ask for their addresses."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from netfw.cli.demo.server import Cloud, ServedHost, make_cloud
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.dhcp_client import Dhclient6, Udhcpc
from netfw.testing.lab.dhcp_lease import ClientLease
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import TIMEOUT, wait_until
from tests.system.dhcp.renewals import Renewals
from tests.system.file_hosts import start_all, stop_all

_COUNTER = itertools.count(1)


def agents_of(*hosts: ServedHost) -> tuple[PrivateAgent, ...]:
    """Return all agents of *hosts*."""
    return tuple(agent for host in hosts for agent in (host.agent, host.dhcp, host.metadata))


class Clouds:
    """At most one cloud, which is made anew when other settings are wanted."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._settings: Mapping[str, object] | None = None
        self._cloud: Cloud | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, scheduling: Mapping[str, object]) -> Cloud:
        """Return the cloud whose server has these options, ready."""
        if self._cloud is None or scheduling != self._settings:
            self.close()
            self._cloud = self._stack.enter_context(_ready_cloud(scheduling))
            self._settings = scheduling
        return self._cloud

    def close(self) -> None:
        """End the cloud, if there is one."""
        self._cloud = None
        self._stack.close()


@contextlib.contextmanager
def _ready_cloud(scheduling: Mapping[str, object]) -> Iterator[Cloud]:
    with make_cloud({"scheduling": dict(scheduling)}) as made:
        made.server.start()
        agents = agents_of(*made.hosts)
        for agent in agents:
            agent.options["agent"]["report_interval"] = 1
        for host in made.hosts:
            host.service.start()
        start_all(*agents)
        wait_until(lambda: sum(each.is_alive for each in made.network.agents()) == 6)
        yield made
        stop_all(*agents)
        for agent in agents:
            assert "Traceback" not in agent.log.read_text(), agent.log.read_text()
        assert "Traceback" not in made.server.log.read_text()


class DhcpNet:
    """A network, its ports, and the clients of the instances behind them."""

    def __init__(self, cloud: Cloud, name: str, **more: Any) -> None:
        self.cloud, self.number = cloud, next(_COUNTER)
        self.network = cloud.network.create_network(name=name, **more)
        self.ports: dict[str, tuple[Any, ServedHost]] = {}
        self._clients: list[Udhcpc | Dhclient6] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()
        wait_until(lambda: not self.serving_hosts(), "its namespaces are gone")
        wait_until(lambda: not any(self.files(host).exists() for host in self.cloud.hosts))

    def subnet(self, version: int, *, second: bool = False, **more: Any) -> Any:
        cidr = (
            f"10.{self.number}.{int(second)}.0/24"
            if version == 4
            else f"fd00:{self.number:x}:{int(second)}::/64"
        )
        return self.cloud.network.create_subnet(
            network_id=self.network.id, cidr=cidr, ip_version=version, **more
        )

    def port(self, host: int = 0, **more: Any) -> Any:
        """Create the port of an instance on a host; the instance is not there yet."""
        where = self.cloud.hosts[host]
        made = self.cloud.network.create_port(
            network_id=self.network.id, binding_host_id=where.host.name, **more
        )
        self.ports[made.id] = made, where
        return made

    def delete(self, port: Any) -> None:
        """Delete a port, and take its device away."""
        _, host = self.ports.pop(port.id)
        host.unplug_port(port)
        self.cloud.network.delete_port(port.id, ignore_missing=True)

    def plug(self, port: Any) -> Instance:
        _, host = self.ports[port.id]
        return host.plug_port(port, f"i{next(_COUNTER)}", addressed=False)

    def client(self, port: Any) -> Udhcpc:
        """Return an IPv4 client of a new instance."""
        self._clients.append(client := Udhcpc(self.plug(port), timeout=TIMEOUT))
        return client

    def client6(self, instance: Instance, *, stateless: bool = False) -> Dhclient6:
        """Return an IPv6 client in an instance."""
        client = Dhclient6(instance, timeout=TIMEOUT, stateless=stateless)
        self._clients.append(client)
        return client

    def boot(self, host: int = 0, **more: Any) -> tuple[Any, Udhcpc, ClientLease]:
        """Create a port and an instance behind it, and return both with the lease that it gets."""
        port = self.port(host, **more)
        client = self.client(port)
        return port, client, leased(client, port)

    def renewing(self, host: int) -> Renewals:
        """Return an instance that requests its lease again and again, from now on."""
        port, client, lease = self.boot(host)
        return Renewals(client.instance, port.mac_address, lease.ip)

    def serving_hosts(self) -> list[ServedHost]:
        """Return the hosts that have the namespace of its DHCP server."""
        name = f"qdhcp-{self.network.id}"
        return [each for each in self.cloud.hosts if name in each.host.run(["ip", "netns"])]

    def servers(self) -> list[Any]:
        """Return the ports from which it is served."""
        ports = self.cloud.network.ports(network_id=self.network.id, device_owner="network:dhcp")
        return list(ports)

    def files(self, host: ServedHost) -> Path:
        return host.dhcp.directory / "dhcp" / str(self.network.id)

    def served_ports(self, host: ServedHost) -> set[str]:
        """Return the ports that the server on a host has addresses for, according to its files."""
        try:
            return {
                path.name
                for path in (self.files(host) / "host").iterdir()
                if "ignore" not in path.read_text() and "." not in path.name
            }
        except FileNotFoundError:  # it changes while it is read
            return set()

    def server_pid(self, host: ServedHost) -> int | None:
        """Return the PID of the dnsmasq of this network, if it runs."""
        try:
            pid = int((self.files(host) / "pid").read_text())
            os.kill(pid, 0)
        except (OSError, ValueError):
            return None
        return pid

    def kill_server(self, host: ServedHost) -> int:
        """End its dnsmasq as a crash would; the pid that it had."""
        pid = wait_until(lambda: self.server_pid(host), "dnsmasq runs")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        return pid

    def remove(self) -> None:
        for client in self._clients:
            client.close()
        for port, _ in list(self.ports.values()):
            self.delete(port)
        self.cloud.network.delete_network(self.network.id)


def address(port: Any) -> str:
    return str(port.fixed_ips[0]["ip_address"])


def leased(client: Udhcpc, port: Any) -> ClientLease:
    """Return the lease that the client gets, which is for the port's own address."""
    lease = client.lease()
    assert lease is not None, f"nobody gave {address(port)}: {client.log()}"
    assert str(lease.ip) == address(port)
    return lease


def dhcp_agent(cloud: Cloud, host: ServedHost) -> Any:
    """Return the DHCP agent of a host, as the API has it."""
    found = cloud.network.agents(host=host.host.name, agent_type="DHCP agent")
    return next(iter(found))


def fetch6(instance: Instance, headers: dict[str, str] | None = None) -> str:
    """Return the answer of the metadata service at its link-local address, or an empty text."""
    requested = [word for item in (headers or {}).items() for word in ("-H", ": ".join(item))]
    url = f"http://[fe80::a9fe:a9fe%25{instance.device}]/latest/meta-data/instance-id"
    done = instance.attempt(["curl", "-sS", "--fail", "-g", "-m", "10", *requested, url])
    return done.output if done.status == 0 else ""
