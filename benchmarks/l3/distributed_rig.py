"""A server, a compute host and a network node with L2 and L3 agents, and distributed routers.

The compute host is the first one (``dvr``), the network node the second (``dvr_snat``).  A third
one has an L2 agent without distributed routing.  The machine outside is on the last host.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from benchmarks.l3.rig import QUOTAS, Rig, Router
from benchmarks.service_rig import HostAgents, service_rig
from netfw.testing.lab.host import Host
from netfw.testing.lab.services.server import PrivateNetfw

CIDR, GATEWAY = "10.0.0.0/24", "10.0.0.1"
SERVING = 2
"""Hosts that have an L3 agent."""


class DistributedRig(Rig):
    """The rig of routers, with a compute host and a network node."""

    def __init__(self, hosts: Sequence[Host], server: PrivateNetfw, directory: Path) -> None:
        super().__init__(hosts, server, directory)
        self.serving = self.hosts[:SERVING]
        self.compute, self.node = self.serving
        for each in self.hosts:
            each.l2.options["agent"]["enable_distributed_routing"] = each in self.serving
            each.agent.options["agent"]["agent_mode"] = "dvr"
        self.node.agent.options["agent"]["agent_mode"] = "dvr_snat"

    @property
    def gateway_netns(self) -> str:
        """The namespace of the agent gateway of a host."""
        return f"fip-{self.outside}"

    def namespaces(self, on: HostAgents) -> set[str]:
        """Return the namespaces of routers and agent gateways on a host."""
        names = (line.split()[0] for line in on.host.run(["ip", "netns"]).splitlines() if line)
        return {name for name in names if name.startswith(("qrouter-", "snat-", "fip-"))}

    def boot(self, routers: Sequence[Router]) -> list[str]:
        """Plug an instance of each router into the compute host, and bind one port more.

        Both have a floating IP; return those of the instances.
        """
        for router in routers:
            self.instance(router.id, router.network, CIDR, GATEWAY, self.compute.host)
        bound = {"binding:host_id": self.compute.host.name}
        others = self.create_many("ports", [{"network_id": r.network, **bound} for r in routers])
        ids = [self.ports[router.id] for router in routers] + [port["id"] for port in others]
        body = {"floating_network_id": self.outside}
        made = self.create_many("floatingips", [{**body, "port_id": id} for id in ids])
        return [each["floating_ip_address"] for each in made[: len(routers)]]


def distributed_rig(hosts: int = SERVING) -> AbstractContextManager[DistributedRig]:
    """Start all of it, without routers."""
    return service_rig(DistributedRig, "l3", QUOTAS, hosts)
