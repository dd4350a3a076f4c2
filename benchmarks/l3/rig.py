"""A server, hosts with their L2 agent and L3 agent, routers by the API, and a machine outside.

Each router has a network of its own, a gateway on the external network, and floating IPs for ports
that are plugged nowhere, except where an instance is asked for.  There are no metadata proxies: an
haproxy for each router would be most of what is measured.  With several hosts, machines are on the
last one, which has no L3 agent, routers may be highly available, and switches do not learn where
addresses are (``l2_population``): they copy what is for such a router to all of its hosts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from attrs import frozen

from benchmarks.process_usage import cpu_with_children
from benchmarks.service_rig import ServiceRig, service_rig
from netfw.drivers.values.router_values import HA_PRIORITY
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.host import Host
from netfw.testing.lab.ini import Groups
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.ping import Pinger
from netfw.testing.lab.services.server import PrivateNetfw
from netfw.testing.lab.wait import wait_until

QUOTAS = ("network", "subnet", "port", "router", "floatingip")
OUTSIDE = "172.24.0.0/16"
INTERVAL = 0.002
"""Seconds between the pings that measure when an address begins to answer."""
TIMEOUT = 300.0
ADVERT = 1
"""Seconds between two VRRP advertisements."""
SKEW = ADVERT * (256 - HA_PRIORITY) / 256
DEAD_INTERVAL = 3 * ADVERT + SKEW
"""Seconds without an advertisement after which a standby takes over."""
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


class Rig(ServiceRig):
    """The server's API, the hosts, and a machine on the external network."""

    def __init__(self, hosts: Sequence[Host], server: PrivateNetfw, directory: Path) -> None:
        options: Groups = {
            "agent": {"enable_metadata_proxy": False, "metadata_driver": ""},
            "linux": {"ha_vrrp_advert_int": ADVERT},
        }
        super().__init__(hosts, server, directory, "netfw.cli.agents.l3", options)
        self.l3 = self.agent
        self.ports: dict[str, str] = {}
        for host in hosts:
            host.ovs.vsctl("set", "Open_vSwitch", ".", f"other_config:{RARELY}")
        for each in self.hosts:
            each.l2.options["agent"]["l2_population"] = len(hosts) > 1

    def prepare(self) -> None:
        """Make the external network, and a machine on it."""
        body = {"name": "outside", "router:external": True}
        self.outside = str(self.client.create("/networks", {"network": body})["id"])
        self.create_subnet(self.outside, OUTSIDE)
        self.world = self.instance("world", self.outside, OUTSIDE)

    def router(
        self, cidr: str = "10.0.0.0/24", floating_ips: int = 2, *, ha: bool = False
    ) -> Router:
        """Make a router with a gateway, a network, and floating IPs for ports of that network."""
        (made,) = self.routers(1, cidr, floating_ips, ha=ha)
        return made

    def routers(
        self, count: int, cidr: str = "10.0.0.0/24", floating_ips: int = 2, **options: bool
    ) -> list[Router]:
        """Make such routers, with as few requests as can be; *options* are of the API (``ha``)."""
        networks = [
            each["id"] for each in self.create_many("networks", [{"name": "inside"}] * count)
        ]
        subnets = self.create_many(
            "subnets",
            [{"network_id": network, "ip_version": 4, "cidr": cidr} for network in networks],
        )
        body = {"external_gateway_info": {"network_id": self.outside}, **options}
        made = []
        routers = self.create_many("routers", [body] * count)
        for router, network, subnet in zip(routers, networks, subnets, strict=True):
            path = f"/routers/{router['id']}/add_router_interface"
            self.request("PUT", path, {"subnet_id": subnet["id"]}, 200)
            (fixed,) = router["external_gateway_info"]["external_fixed_ips"]
            made.append(Router(router["id"], network, fixed["ip_address"]))
        self.add_floating_ips(made, floating_ips)
        return made

    def add_floating_ips(self, routers: Iterable[Router], count: int) -> None:
        """Make ports on the networks of routers, and a floating IP for each."""
        networks = [router.network for router in routers for _ in range(count)]
        ports = self.create_many("ports", [{"network_id": network} for network in networks])
        body = {"floating_network_id": self.outside}
        self.create_many("floatingips", [{**body, "port_id": port["id"]} for port in ports])

    def floating_ip(self, port: str) -> dict[str, Any]:
        """Make a floating IP for a port."""
        body = {"floating_network_id": self.outside, "port_id": port}
        return self.client.create("/floatingips", {"floatingip": body})

    def delete_floating_ip(self, id: str) -> None:
        self.request("DELETE", f"/floatingips/{id}", None, 204)

    def instance(
        self,
        name: str,
        network: str,
        cidr: str,
        gateway: str | None = None,
        on: Host | None = None,
    ) -> Instance:
        """Plug an instance on a network, on the last host or *on* another."""
        port, instance = self.plug(name, network, f"/{cidr.partition('/')[2]}", gateway, on)
        self.ports[name] = port["id"]
        return instance

    def answered(self, address: str) -> float:
        """Ping an address from outside until it answers; return when that was.

        :raises RuntimeError: it does not.
        """
        pinger = self.world.call(Pinger, address, INTERVAL)
        deadline = time.monotonic() + TIMEOUT
        pinger.run(lambda _: pinger.answered or time.monotonic() > deadline, 0)
        if not pinger.answered:
            raise RuntimeError(f"{address} does not answer in {TIMEOUT:g} s")
        return time.monotonic()

    def silent(self, address: str) -> None:
        """Wait until an address does not answer any more."""
        wait_until(lambda: bool(self.world.ping(address, count=1, timeout=0.05).lost))

    def await_active(self, pause: float = 0.05) -> None:
        """Wait until every floating IP is reported to be served."""
        wait_until(
            lambda: not self._not_active(),
            "floating IPs that are ACTIVE",
            seconds=TIMEOUT,
            pause=pause,
        )

    def _not_active(self) -> int:
        found = self.request("GET", "/floatingips?status=DOWN&limit=1&fields=id", None, 200)
        return len(found["floatingips"])

    def await_rest(self, agent: PrivateAgent) -> None:
        """Wait until an agent has nothing to do."""
        former, now = 0.0, cpu_with_children(agent.pid)
        while now - former > 0.01:
            time.sleep(0.3)
            former, now = now, cpu_with_children(agent.pid)


def reach(found: Rig, routers: Iterable[Router]) -> None:
    """Wait until the gateways of all routers answer from outside."""
    for router in routers:
        found.answered(router.gateway)


def rig(hosts: int = 1) -> AbstractContextManager[Rig]:
    """Start all of it, without routers."""
    return service_rig(Rig, "l3", QUOTAS, hosts)
