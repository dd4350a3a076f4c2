"""Demo section 7: a distributed router, which works while the network node is cut off."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from attrs import define

from netfw.cli.demo.agents import PHYSICAL, becomes_true, files_named, reached
from netfw.cli.demo.host_diagram import render_hosts
from netfw.cli.demo.report import DemoReport
from netfw.cli.demo.router_topology import (
    WEB,
    WORLD,
    connect_instances,
    make_outside,
    make_world,
)
from netfw.cli.demo.server import Cloud, ServedHost
from netfw.cli.demo.tcp import connected, listening
from netfw.model.values.device_owner import DeviceOwner
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.ping import Ping
from netfw.testing.lab.wait import wait_until

CIDRS = ("10.6.0.0/24", "10.7.0.0/24")
INTERFACE = DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED.value
"""Owner of the interfaces of a distributed router."""
SHORT = 8
"""Characters of an id in the diagram."""
CUT = 1.0
"""Seconds that the network node is cut off."""
CLIENT = """
spread = network.create_router(
    name="spread", is_distributed=True, external_gateway_info={"network_id": outside.id})
network.add_interface_to_router(spread, subnet_id=amber_subnet.id)
network.add_interface_to_router(spread, subnet_id=violet_subnet.id)
"""


@define
class DistributedDemo:
    """A distributed router between two networks, with an instance of each on its own host."""

    cloud: Cloud
    router: Any
    world: Instance
    amber: Instance
    violet: Instance

    @property
    def outside(self) -> str:
        """The id of the external network."""
        return str(self.router.external_gateway_info["network_id"])

    @property
    def gateway(self) -> str:
        """The address of the router on the external network."""
        fixed_ips = self.router.external_gateway_info["external_fixed_ips"]
        return str(fixed_ips[0]["ip_address"])

    def has_parts(self, *parts: set[str]) -> bool:
        """Return whether each host soon has these namespaces of routers, and no other."""
        return becomes_true(
            lambda: [each.router_namespaces() for each in self.cloud.hosts] == list(parts)
        )


def demo_distributed_router(report: DemoReport, cloud: Cloud) -> None:
    """Run a router on the hosts of its instances; cut off the host of its central part."""
    _start(report, cloud)
    site = _connect(report, cloud)
    _go_out(report, site)
    address = _give_floating_ip(report, site)
    _cut_off(report, site, address)
    _remove(report, site)


def _start(report: DemoReport, cloud: Cloud) -> None:
    report.step(
        "Start a server and three hosts",
        [
            "host1 and host2 have instances, their L3 agents agent_mode = dvr; host3 is the",
            "network node: agent_mode = dvr_snat",
        ],
    )
    began = time.monotonic()
    cloud.server.start()
    *_, central = cloud.hosts
    for each in cloud.hosts:
        l2, l3 = (agent.options["agent"] for agent in (each.agent, each.l3))
        l2 |= {"report_interval": 1, "l2_population": True, "enable_distributed_routing": True}
        l3 |= {"report_interval": 1, "agent_mode": "dvr_snat" if each is central else "dvr"}
    agents = [agent for each in cloud.hosts for agent in (each.agent, each.l3)]
    for agent in agents:
        agent.spawn()
    for agent in agents:
        agent.wait_for(lambda status: bool(status.get("ready")))
    wait_until(lambda: len(list(cloud.network.agents())) == len(agents), "the agents are known")
    report.say(f"ready after {time.monotonic() - began:.1f} s")


def _connect(report: DemoReport, cloud: Cloud) -> DistributedDemo:
    report.step(
        "Make a distributed router by the API",
        [
            f"between amber {CIDRS[0]}, with amber1 on host1, and violet {CIDRS[1]}, with",
            f"violet1 on host2; the outside world, {WORLD}, is a namespace on {PHYSICAL}:",
        ],
    )
    report.quote(CLIENT.strip().splitlines())
    began = time.monotonic()
    world = make_world(cloud)
    gateway = {"network_id": make_outside(cloud).id}
    router = cloud.network.create_router(
        name="spread", is_distributed=True, external_gateway_info=gateway
    )
    amber, violet = connect_instances(cloud, router, CIDRS)
    site = DistributedDemo(cloud, router, world, amber, violet)
    ok = reached(amber, cloud.named("violet1").fixed_ips[0]["ip_address"])
    report.say(f"{time.monotonic() - began:.1f} s after the first call:")
    report.check("amber1 on host1 pings violet1 on host2, through the distributed router", ok)
    local, central = f"qrouter-{router.id}", f"snat-{router.id}"
    ok = site.has_parts({local}, {local}, {local, central})
    report.say("namespaces of the router, on each host:")
    report.quote(_draw(site))
    report.check("it is on every host, its central part (snat-) on the network node only", ok)
    return site


def _go_out(report: DemoReport, site: DistributedDemo) -> None:
    report.step("Go out", [f"from amber1 to {WORLD}, by TCP; it has no floating IP:"])
    ok = reached(site.amber, WORLD)
    with listening(site.world, WEB) as server, connected(site.amber, WORLD, server) as (_, far):
        seen = str(far.getpeername()[0])
    report.say(f"the outside world sees {seen}; the router's gateway has {site.gateway}")
    report.check("amber1 goes out through the network node: SNAT", ok and seen == site.gateway)


def _give_floating_ip(report: DemoReport, site: DistributedDemo) -> str:
    """Give the second instance a floating IP; return its address."""
    report.step("Give violet1 a floating IP", ["it is served on host2, where violet1 is:"])
    began = time.monotonic()
    floating = site.cloud.network.create_ip(
        floating_network_id=site.outside, port_id=site.cloud.named("violet1").id
    )
    address = str(floating.floating_ip_address)
    ok = reached(site.world, address)
    report.say(f"{time.monotonic() - began:.1f} s after the call:")
    report.check(f"the outside world reaches violet1 at {address}", ok)
    local, central = f"qrouter-{site.router.id}", f"snat-{site.router.id}"
    ok = site.has_parts({local}, {local, f"fip-{site.outside}"}, {local, central})
    report.quote(_draw(site))
    report.check("host2 has a gateway of its own (fip-); the other hosts have none", ok)
    return address


def _cut_off(report: DemoReport, site: DistributedDemo, address: str) -> None:
    report.step(
        "Cut off host3, the network node",
        ["from all networks, under a ping every 10 ms in each direction:"],
    )
    violet = str(site.cloud.named("violet1").fixed_ips[0]["ip_address"])
    flows = {
        "amber1 on host1 to violet1 on host2": (site.amber, violet),
        f"the outside world to violet1 at {address}": (site.world, address),
        f"violet1 to the outside world at {WORLD}": (site.violet, WORLD),
    }
    with ExitStack() as stack:
        pings = [
            stack.enter_context(each.pinging(to, interval=0.01)) for each, to in flows.values()
        ]
        with site.cloud.cut(site.cloud.hosts[-1]):
            time.sleep(CUT)
            gone = site.amber.ping(WORLD, count=2, timeout=0.3).received == 0
            results: list[Ping] = [running.stop() for running in pings]
    for name, ping in zip(flows, results, strict=True):
        report.say(f"{name}: {ping.sent} sent, {ping.lost} lost")
    east_west, *north_south = (ping.lost == 0 and ping.sent > 0 for ping in results)
    report.check("traffic between the networks loses no packet", east_west)
    report.check("nor does the floating IP, in or out", all(north_south))
    report.check("amber1, which has none, does not get out meanwhile", gone)
    report.check("with host3 back, it does", reached(site.amber, WORLD))


def _remove(report: DemoReport, site: DistributedDemo) -> None:
    report.step("Delete the router", ["and look for what was made for it"])
    network, router = site.cloud.network, site.router
    for floating in list(network.ips()):
        network.delete_ip(floating)
    for port in list(network.ports(device_id=router.id, device_owner=INTERFACE)):
        network.remove_interface_from_router(router, port_id=port.id)
    network.delete_router(router)
    gone = becomes_true(lambda: not any(_remains(site, each) for each in site.cloud.hosts))
    report.check("no namespace, process or file of the router is left on any host", gone)
    gone = becomes_true(lambda: {port.name for port in network.ports()} == {"amber1", "violet1"})
    report.check("nor a port of it in the API, the gateway of host2 included", gone)


def _remains(site: DistributedDemo, host: ServedHost) -> list[str]:
    """Return namespaces, processes and files of the router, and of agent gateways."""
    router = str(site.router.id)
    return [
        *host.router_namespaces(),
        *files_named(host.l3.directory, router),
        *host.host.attempt(["pgrep", "-f", router]).output.split(),
    ]


def _draw(site: DistributedDemo) -> Iterator[str]:
    """Return a diagram of all hosts: their instances, and the namespaces of the router."""
    instances = ("amber1", "violet1", "network node")
    contents = {
        each.host.name: (name, *map(_shorten, sorted(each.router_namespaces(), reverse=True)))
        for each, name in zip(site.cloud.hosts, instances, strict=True)
    }
    return render_hosts(contents, "--")


def _shorten(netns: str) -> str:
    """Shorten the id in the name of a namespace."""
    prefix, _, id = netns.partition("-")
    return f"{prefix}-{id[:SHORT]}"
