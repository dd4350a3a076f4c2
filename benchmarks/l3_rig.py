"""A server, one host with its L2 agent and its L3 agent, routers by the API, and a machine outside.

Each router has a network of its own, a gateway on the external network, and floating IPs for ports
that are plugged nowhere, except where an instance is asked for.  There are no metadata proxies: an
haproxy for each router would be most of what is measured.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from benchmarks.dhcp_rig import cpu
from benchmarks.l2_rig import environment
from benchmarks.load import Client
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.ping import Pinger
from netfw.testing.lab.server import PrivateNetfw
from netfw.testing.lab.wait import wait_until

OPTIONS = {
    "quotas": {
        "quota_network": -1,
        "quota_subnet": -1,
        "quota_port": -1,
        "quota_router": -1,
        "quota_floatingip": -1,
    },
    "scheduling": {"agent_down_time": 3600},
}
OUTSIDE = "172.24.0.0/16"
INTERVAL = 0.002
"""Seconds between the pings that measure when an address begins to answer."""
PATIENCE = 120.0


@frozen
class Router:
    """A router of the API."""

    id: str
    network: str
    gateway: str
    """Its address on the external network."""

    @property
    def netns(self) -> str:
        return f"qrouter-{self.id}"


class Rig:
    """The server's API, the host, and a machine on the external network."""

    def __init__(self, host: Host, server: PrivateNetfw, directory: Path) -> None:
        self.host, self.server = host, server
        self.client = Client(f"unix://{server.socket}")
        asking = {
            "agent": {"state_source": "server"},
            "socket": {"connect": f"unix:{server.messages}"},
        }
        switch = {"ovsdb_connection": host.ovs.remote, "ovsdb_timeout": 60}
        tunnels = {
            "datapath_type": "netdev",
            "local_ip": host.address.ip,
            "tunnel_types": "vxlan",
        }
        self.l2 = PrivateAgent(
            host,
            directory / "l2",
            "netfw.cli.agents.l2",
            {**asking, "openvswitch": {**switch, **tunnels}},
        )
        own = {**asking["agent"], "enable_metadata_proxy": False, "metadata_driver": ""}
        self.l3 = PrivateAgent(
            host,
            directory / "l3",
            "netfw.cli.agents.l3",
            {**asking, "agent": own, "openvswitch": switch},
        )
        self.ports: dict[str, str] = {}
        self._made = 0

    def prepare(self) -> None:
        """Make the external network, and a machine on it."""
        body = {"name": "outside", "router:external": True}
        self.outside = str(self.client.made("/networks", {"network": body})["id"])
        self._subnet(self.outside, OUTSIDE)
        self.world = self.instance("world", self.outside, OUTSIDE)

    def router(self, cidr: str = "10.0.0.0/24", floating_ips: int = 2) -> Router:
        """Make a router with a gateway, a network, and floating IPs for ports of that network."""
        self._made += 1
        network = str(self.client.made("/networks", {"network": {"name": f"n{self._made}"}})["id"])
        subnet = self._subnet(network, cidr)
        body = {"external_gateway_info": {"network_id": self.outside}}
        made = self.client.made("/routers", {"router": body})
        path = f"/routers/{made['id']}/add_router_interface"
        self._checked("PUT", path, {"subnet_id": subnet}, 200)
        (fixed,) = made["external_gateway_info"]["external_fixed_ips"]
        router = Router(made["id"], network, fixed["ip_address"])
        self.add_floating_ips(router, floating_ips)
        return router

    def add_floating_ips(self, router: Router, count: int) -> None:
        """Make ports on the router's network, and a floating IP for each."""
        some = [{"network_id": router.network}] * count
        for port in self._checked("POST", "/ports", {"ports": some}, 201)["ports"]:
            self.floating_ip(port["id"])

    def floating_ip(self, port: str) -> dict[str, Any]:
        """Make a floating IP for a port."""
        body = {"floating_network_id": self.outside, "port_id": port}
        return self.client.made("/floatingips", {"floatingip": body})

    def delete_floating_ip(self, id: str) -> None:
        self._checked("DELETE", f"/floatingips/{id}", None, 204)

    def instance(self, name: str, network: str, cidr: str, gateway: str | None = None) -> Instance:
        """Plug an instance on a network."""
        body = {
            "network_id": network,
            "binding:host_id": self.host.name,
            "port_security_enabled": False,
        }
        port = self.client.made("/ports", {"port": body})
        address = f"{port['fixed_ips'][0]['ip_address']}/{cidr.partition('/')[2]}"
        plug = Plug(
            bridge="br-int",
            device=f"tap{port['id'][:11]}",
            mac=port["mac_address"],
            addresses=(address,),
            gateways=() if gateway is None else (gateway,),
            mtu=1450,
            external_ids={"iface-id": port["id"], "attached-mac": port["mac_address"]},
        )
        self.ports[name] = port["id"]
        return self.host.instance(name, plug)

    def answered(self, address: str) -> float:
        """Ping an address from outside until it answers; return when that was.

        :raises RuntimeError: it does not.
        """
        pinger = self.world.call(Pinger, address, INTERVAL)
        deadline = time.monotonic() + PATIENCE
        pinger.run(lambda _: pinger.answered or time.monotonic() > deadline, 0)
        if not pinger.answered:
            raise RuntimeError(f"{address} does not answer in {PATIENCE:g} s")
        return time.monotonic()

    def silent(self, address: str) -> None:
        """Wait until an address does not answer any more."""
        wait_until(lambda: bool(self.world.ping(address, count=1, timeout=0.05).lost))

    def await_active(self) -> None:
        """Wait until every floating IP is reported to be served."""
        wait_until(lambda: not self._not_active(), "floating IPs that are ACTIVE", pause=0.05)

    def _not_active(self) -> int:
        found = self._checked("GET", "/floatingips?status=DOWN&limit=1&fields=id", None, 200)
        return len(found["floatingips"])

    def await_rest(self, agent: PrivateAgent) -> None:
        """Wait until an agent has nothing to do."""
        former, now = 0.0, cpu(Path("/proc", str(agent.pid)))
        while now - former > 0.01:
            time.sleep(0.3)
            former, now = now, cpu(Path("/proc", str(agent.pid)))

    def _subnet(self, network: str, cidr: str) -> str:
        body = {"network_id": network, "ip_version": 4, "cidr": cidr}
        return str(self.client.made("/subnets", {"subnet": body})["id"])

    def _checked(self, method: str, path: str, body: object, expected: int) -> Any:
        status, content = self.client.request(method, path, body)
        if status != expected:
            raise RuntimeError(f"{method} {path}: {status} {content[:300]!r}")
        return json.loads(content) if content else None


def used(pid: int) -> float:
    """Seconds of CPU that a process and its children that ended have used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    children = sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")
    return cpu(Path("/proc", str(pid))) + children


def reach(found: Rig, routers: Iterable[Router]) -> None:
    """Wait until the gateways of all routers answer from outside."""
    for router in routers:
        found.answered(router.gateway)


@contextmanager
def rig() -> Iterator[Rig]:
    """All of it, ready, and without routers."""
    before = dict(os.environ)
    os.environ.update(environment())
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        with tempfile.TemporaryDirectory(prefix="bench-l3-", dir="/var/tmp") as folder:
            Path(folder).chmod(0o755)
            with (
                PrivateNetfw(Path(folder) / "server", OPTIONS) as server,
                Lab(hosts=1, bridges=["br-int"]) as lab,
            ):
                (host,) = lab.hosts.values()
                made = Rig(host, server, Path(folder))
                try:
                    made.l2.start()
                    made.l3.start()
                    made.prepare()
                    yield made
                finally:
                    made.l3.stop()
                    made.l2.stop()
    finally:
        os.environ.clear()
        os.environ.update(before)
