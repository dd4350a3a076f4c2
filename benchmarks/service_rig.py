"""A server, one host with its L2 agent and one more agent, and instances plugged by the API."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.l2_rig import environment
from benchmarks.load import Client
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.host import Host
from netfw.testing.lab.ini import Groups
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.services.server import PrivateNetfw

BULK = 100
"""Resources of one request."""
_AGENT_DOWN_TIME = 3600

R = TypeVar("R", bound="ServiceRig")


class ServiceRig:
    """The server's API, the host, and the two agents; *module* is the one beside the L2 agent.

    *options* are groups of its configuration beside those that both agents need.
    """

    def __init__(
        self, host: Host, server: PrivateNetfw, directory: Path, module: str, options: Groups
    ) -> None:
        self.host, self.server = host, server
        self.client = Client(f"unix://{server.socket}")
        switch = {"ovsdb_connection": host.ovs.remote, "ovsdb_timeout": 60}
        tunnels = {
            "datapath_type": "netdev",
            "local_ip": host.address.ip,
            "tunnel_types": "vxlan",
        }
        source = {"state_source": "server"}
        socket = {"connect": f"unix:{server.messages}"}
        self.l2 = PrivateAgent(
            host,
            directory / "l2",
            "netfw.cli.agents.l2",
            {"agent": source, "socket": socket, "openvswitch": {**switch, **tunnels}},
        )
        own = {**options, "agent": {**source, **options.get("agent", {})}}
        name = module.rpartition(".")[2]
        self.agent = PrivateAgent(
            host, directory / name, module, {**own, "socket": socket, "openvswitch": switch}
        )

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
        self, name: str, network: str, prefix: str = "", gateway: str | None = None
    ) -> tuple[dict[str, Any], Instance]:
        """Plug an instance on a network; return its port, too.

        With *prefix* ("/24") the instance has the address of the port, without it none.
        """
        body = {
            "network_id": network,
            "binding:host_id": self.host.name,
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
        return port, self.host.instance(name, plug)


@contextmanager
def service_rig(
    make: Callable[[Host, PrivateNetfw, Path], R], name: str, quotas: tuple[str, ...]
) -> Iterator[R]:
    """Start a server without *quotas*, a host and the agents of the rig; stop them afterwards."""
    options: Mapping[str, Mapping[str, object]] = {
        "quotas": {f"quota_{resource}": -1 for resource in quotas},
        "scheduling": {"agent_down_time": _AGENT_DOWN_TIME},
    }
    before = dict(os.environ)
    os.environ.update(environment())
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        with tempfile.TemporaryDirectory(prefix=f"bench-{name}-", dir="/var/tmp") as folder:
            Path(folder).chmod(0o755)  # dnsmasq reads as a user without rights
            with (
                PrivateNetfw(Path(folder) / "server", options) as server,
                Lab(hosts=1, bridges=["br-int"]) as lab,
            ):
                (host,) = lab.hosts.values()
                rig = make(host, server, Path(folder))
                try:
                    rig.l2.start()
                    rig.agent.start()
                    rig.prepare()
                    yield rig
                finally:
                    rig.agent.stop()
                    rig.l2.stop()
    finally:
        os.environ.clear()
        os.environ.update(before)
