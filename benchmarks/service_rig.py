"""A server, hosts with their L2 agent and one more agent, and instances plugged by the API."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from attrs import frozen

from benchmarks.l2.rig import environment
from benchmarks.load import Client
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.host import Host
from netfw.testing.lab.ini import Groups
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.services.server import PrivateNetfw

BULK = 100
"""Resources of one request."""
_SCHEDULING = {"agent_down_time": 3600, "reschedule_interval": 3600}
"""Nothing is moved to another agent while it is measured, nor is a removed router added again."""

R = TypeVar("R", bound="ServiceRig")


@frozen
class HostAgents:
    """A host, its L2 agent, and the agent beside it."""

    host: Host
    l2: PrivateAgent
    agent: PrivateAgent


class ServiceRig:
    """The server's API, the hosts and their agents; *module* is the one beside the L2 agents.

    Instances are plugged on the last host.  With several hosts, that one has an L2 agent only.
    *options* are groups of the configuration of *module* beside those that all agents need.
    """

    def __init__(
        self,
        hosts: Sequence[Host],
        server: PrivateNetfw,
        directory: Path,
        module: str,
        options: Groups,
    ) -> None:
        self.server = server
        self.client = Client(f"unix://{server.socket}")
        self._module, self._options = module, options
        self.hosts = [self._make_agents(host, directory / host.name) for host in hosts]
        self.serving = self.hosts[:-1] or self.hosts
        """The hosts that have the agent beside the L2 agent."""
        self.host, self.l2, self.agent = hosts[0], self.hosts[0].l2, self.hosts[0].agent

    def _make_agents(self, host: Host, directory: Path) -> HostAgents:
        switch = {"ovsdb_connection": host.ovs.remote, "ovsdb_timeout": 60}
        tunnels = {
            "datapath_type": "netdev",
            "local_ip": host.address.ip,
            "tunnel_types": "vxlan",
        }
        source = {"state_source": "server"}
        socket = {"connect": f"unix:{self.server.messages}"}
        l2 = PrivateAgent(
            host,
            directory / "l2",
            "netfw.cli.agents.l2",
            {"agent": source, "socket": socket, "openvswitch": {**switch, **tunnels}},
        )
        own = {**self._options, "agent": {**source, **self._options.get("agent", {})}}
        agent = PrivateAgent(
            host,
            directory / self._module.rpartition(".")[2],
            self._module,
            {**own, "socket": socket, "openvswitch": switch},
        )
        return HostAgents(host, l2, agent)

    def start(self) -> None:
        """Start all agents."""
        for each in self.hosts:
            each.l2.start()
        for each in self.serving:
            each.agent.start()

    def stop(self) -> None:
        """Stop all agents."""
        for each in self.hosts:
            each.agent.stop()
            each.l2.stop()

    def prepare(self) -> None:
        """Make what every measurement needs; the agents run."""

    def create_many(self, collection: str, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Create resources with few requests."""
        made: list[dict[str, Any]] = []
        for start in range(0, len(bodies), BULK):
            some = {collection: bodies[start : start + BULK]}
            made += self.request("POST", f"/{collection}", some, 201)[collection]
        return made

    def create_subnet(self, network: str, cidr: str) -> None:
        """Create a subnet of IPv4."""
        body = {"network_id": network, "ip_version": 4, "cidr": cidr}
        self.client.create("/subnets", {"subnet": body})

    def request(self, method: str, path: str, body: object, expected: int) -> Any:
        """Send a request; return the decoded body of the answer.

        :raises RuntimeError: the status is another one.
        """
        status, content = self.client.request(method, path, body)
        if status != expected:
            raise RuntimeError(f"{method} {path}: {status} {content[:300]!r}")
        return json.loads(content) if content else None

    def plug(
        self,
        name: str,
        network: str,
        prefix: str = "",
        gateway: str | None = None,
        on: Host | None = None,
    ) -> tuple[dict[str, Any], Instance]:
        """Plug an instance on a network, on the last host or *on* another; return its port, too.

        With *prefix* ("/24") the instance has the address of the port, without it none.
        """
        host = on or self.hosts[-1].host
        body = {
            "network_id": network,
            "binding:host_id": host.name,
            "port_security_enabled": False,
        }
        port = self.client.create("/ports", {"port": body})
        address = f"{port['fixed_ips'][0]['ip_address']}{prefix}"
        plug = Plug(
            bridge="br-int",
            device=f"tap{port['id'][:11]}",
            mac=port["mac_address"],
            addresses=(address,) if prefix else (),
            gateways=() if gateway is None else (gateway,),
            mtu=1450,
            external_ids={"iface-id": port["id"], "attached-mac": port["mac_address"]},
        )
        return port, host.instance(name, plug)


@contextmanager
def service_rig(
    make: Callable[[Sequence[Host], PrivateNetfw, Path], R],
    name: str,
    quotas: tuple[str, ...],
    hosts: int = 1,
) -> Iterator[R]:
    """Start a server without *quotas*, hosts and the agents of the rig; stop them afterwards."""
    options: Mapping[str, Mapping[str, object]] = {
        "quotas": {f"quota_{resource}": -1 for resource in quotas},
        "scheduling": _SCHEDULING,
        "api": {"idle_timeout": 3600},
    }
    before = dict(os.environ)
    os.environ.update(environment())
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        with tempfile.TemporaryDirectory(prefix=f"bench-{name}-", dir="/var/tmp") as folder:
            Path(folder).chmod(0o755)  # dnsmasq reads as a user without rights
            with (
                PrivateNetfw(Path(folder) / "server", options) as server,
                Lab(hosts=hosts, bridges=["br-int"]) as lab,
            ):
                rig = make(list(lab.hosts.values()), server, Path(folder))
                try:
                    rig.start()
                    rig.prepare()
                    yield rig
                finally:
                    rig.stop()
    finally:
        os.environ.clear()
        os.environ.update(before)
