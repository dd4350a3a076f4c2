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

from benchmarks.l2_rig import environment
from benchmarks.load import Client
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.ping import Pinger
from netfw.testing.lab.services.server import PrivateNetfw
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
PATIENCE = 300.0
BULK = 100
_CPU_CLOCK = 2
"""The clock of the CPU time of a process, by its id (clock_getcpuclockid)."""
RARELY = "stats-update-interval=3600000"
"""The switch reads the counters of a thousand ports every five seconds otherwise."""


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
        host.ovs.vsctl("set", "Open_vSwitch", ".", f"other_config:{RARELY}")

    def prepare(self) -> None:
        """Make the external network, and a machine on it."""
        body = {"name": "outside", "router:external": True}
        self.outside = str(self.client.made("/networks", {"network": body})["id"])
        self._subnet(self.outside, OUTSIDE)
        self.world = self.instance("world", self.outside, OUTSIDE)

    def router(self, cidr: str = "10.0.0.0/24", floating_ips: int = 2) -> Router:
        """Make a router with a gateway, a network, and floating IPs for ports of that network."""
        (made,) = self.routers(1, cidr, floating_ips)
        return made

    def routers(self, count: int, cidr: str = "10.0.0.0/24", floating_ips: int = 2) -> list[Router]:
        """Make such routers, with as few requests as can be."""
        networks = [each["id"] for each in self._bulk("networks", [{"name": "inside"}] * count)]
        subnets = self._bulk(
            "subnets",
            [{"network_id": network, "ip_version": 4, "cidr": cidr} for network in networks],
        )
        body = {"external_gateway_info": {"network_id": self.outside}}
        made = []
        routers = self._bulk("routers", [body] * count)
        for router, network, subnet in zip(routers, networks, subnets, strict=True):
            path = f"/routers/{router['id']}/add_router_interface"
            self._checked("PUT", path, {"subnet_id": subnet["id"]}, 200)
            (fixed,) = router["external_gateway_info"]["external_fixed_ips"]
            made.append(Router(router["id"], network, fixed["ip_address"]))
        self.add_floating_ips(made, floating_ips)
        return made

    def add_floating_ips(self, routers: Iterable[Router], count: int) -> None:
        """Make ports on the networks of routers, and a floating IP for each."""
        networks = [router.network for router in routers for _ in range(count)]
        ports = self._bulk("ports", [{"network_id": network} for network in networks])
        body = {"floating_network_id": self.outside}
        self._bulk("floatingips", [{**body, "port_id": port["id"]} for port in ports])

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

    def await_active(self, pause: float = 0.05) -> None:
        """Wait until every floating IP is reported to be served."""
        wait_until(
            lambda: not self._not_active(),
            "floating IPs that are ACTIVE",
            seconds=PATIENCE,
            pause=pause,
        )

    def _not_active(self) -> int:
        found = self._checked("GET", "/floatingips?status=DOWN&limit=1&fields=id", None, 200)
        return len(found["floatingips"])

    def await_rest(self, agent: PrivateAgent) -> None:
        """Wait until an agent has nothing to do."""
        former, now = 0.0, used(agent.pid)
        while now - former > 0.01:
            time.sleep(0.3)
            former, now = now, used(agent.pid)

    def _bulk(self, collection: str, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        for start in range(0, len(bodies), BULK):
            some = {collection: bodies[start : start + BULK]}
            made += self._checked("POST", f"/{collection}", some, 201)[collection]
        return made

    def _subnet(self, network: str, cidr: str) -> str:
        body = {"network_id": network, "ip_version": 4, "cidr": cidr}
        return str(self.client.made("/subnets", {"subnet": body})["id"])

    def _checked(self, method: str, path: str, body: object, expected: int) -> Any:
        status, content = self.client.request(method, path, body)
        if status != expected:
            raise RuntimeError(f"{method} {path}: {status} {content[:300]!r}")
        return json.loads(content) if content else None


def used(pid: int) -> float:
    """Seconds of CPU that a process, with threads and children that ended, has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    children = sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(~pid << 3 | _CPU_CLOCK) + children


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
