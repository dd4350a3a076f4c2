"""Demo section 6: a router between two networks and the outside world; it survives its host."""

from __future__ import annotations

import time
from contextlib import ExitStack

from netfw.cli.demo.agents import (
    PHYSICAL,
    TIMEOUT,
    becomes_true,
    files_named,
    plan_of,
    reached,
)
from netfw.cli.demo.report import DemoReport
from netfw.cli.demo.router_failover import ADVERT_INTERVAL, demo_failover
from netfw.cli.demo.router_firewall import demo_firewall
from netfw.cli.demo.router_topology import (
    WEB,
    WORLD,
    RoutedSite,
    connect_instances,
    make_outside,
    make_world,
)
from netfw.cli.demo.server import Cloud, ServedHost
from netfw.cli.demo.tcp import carries, connected, listening
from netfw.model.values.device_owner import DeviceOwner
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.wait import wait_until

CIDRS = ("10.4.0.0/24", "10.5.0.0/24")
INTERFACE = DeviceOwner.HA_ROUTER_REPLICATED_INTERFACE.value
"""Owner of the interfaces of a highly available router."""
CLIENT = f"""
outside = network.create_network(
    name="outside", is_router_external=True,
    provider_network_type="flat", provider_physical_network="{PHYSICAL}")
edge = network.create_router(name="edge", external_gateway_info={{"network_id": outside.id}})
network.add_interface_to_router(edge, subnet_id=amber_subnet.id)
network.add_interface_to_router(edge, subnet_id=violet_subnet.id)
"""


def demo_routers(report: DemoReport, cloud: Cloud) -> None:
    """Start an L3 agent; connect two networks with each other and with the outside."""
    with ExitStack() as stack:
        _start(report, cloud)
        site = _connect(report, cloud, stack)
        _translate(report, site)
        demo_firewall(report, site)
        address = _move(report, site)
        _kill(report, site, address)
        demo_failover(report, site)
        _remove(report, site)


def _start(report: DemoReport, cloud: Cloud) -> None:
    for each in cloud.hosts:
        each.l3.options["agent"]["report_interval"] = 1
        each.l3.options["linux"] = {"ha_vrrp_advert_int": ADVERT_INTERVAL}
    report.step(
        "Start an L3 agent on host2",
        ["netfw-l3-agent runs each router in a namespace: routes and iptables of the kernel"],
    )
    seconds = cloud.hosts[1].l3.start()
    report.say(f"ready after {seconds:.1f} s")
    wait_until(lambda: any(cloud.network.agents(agent_type="L3 agent")), "the agent is known")


def _connect(report: DemoReport, cloud: Cloud, stack: ExitStack) -> RoutedSite:
    report.step(
        "Make two networks and a router by the API",
        [
            f"amber {CIDRS[0]}, violet {CIDRS[1]}; the outside world, {WORLD}, is a namespace",
            f"on {PHYSICAL}: no port of the cloud, and without a route to its networks",
        ],
    )
    report.quote(CLIENT.strip().splitlines())
    began = time.monotonic()
    site = _make_site(cloud, stack)
    target = cloud.named("violet1").fixed_ips[0]["ip_address"]
    ok = reached(site.amber, target)
    report.say(f"{time.monotonic() - began:.1f} s after the first call:")
    report.check("amber1 on host1 pings violet1 on host2, through the router", ok)
    return site


def _make_site(cloud: Cloud, stack: ExitStack) -> RoutedSite:
    world = make_world(cloud)
    gateway = {"network_id": make_outside(cloud).id}
    router = cloud.network.create_router(name="edge", external_gateway_info=gateway)
    amber, violet = connect_instances(cloud, router, CIDRS)
    machines = {"world": world, "amber1": amber, "violet1": violet}
    listeners = {name: stack.enter_context(listening(each, WEB)) for name, each in machines.items()}
    return RoutedSite(cloud, router, world, amber, violet, listeners)


def _translate(report: DemoReport, site: RoutedSite) -> None:
    report.step("Go out", [f"from violet1 to {WORLD}, by TCP:"])
    report.check("violet1 pings the outside world", reached(site.violet, WORLD))
    seen = _source(site, site.violet)
    report.say(f"the outside world sees {seen}; the router's gateway has {site.gateway}")
    report.check("SNAT: the outside world sees the gateway's address", seen == site.gateway)


def _source(site: RoutedSite, client: Instance) -> str:
    """Return the address that the outside world sees of *client*."""
    with connected(client, WORLD, site.listeners["world"]) as (_, far):
        return str(far.getpeername()[0])


def _move(report: DemoReport, site: RoutedSite) -> str:
    """Give a floating IP to one instance, then to the other; return its address."""
    network = site.cloud.network
    report.step("Give amber1 a floating IP, then move it to violet1")
    began = time.monotonic()
    floating = network.create_ip(
        floating_network_id=site.router.external_gateway_info["network_id"],
        port_id=site.cloud.named("amber1").id,
    )
    address = str(floating.floating_ip_address)
    ok = site.reaches(address, "amber1")
    report.say(f"{time.monotonic() - began:.1f} s after the call:")
    report.check(f"the outside world reaches amber1 at {address}", ok)
    report.check("and sees amber1 with that address", _source(site, site.amber) == address)
    with connected(site.world, address, site.listeners["amber1"]) as (near, far):
        began = time.monotonic()
        network.update_ip(floating, port_id=site.cloud.named("violet1").id)
        ok = site.reaches(address, "violet1")
        report.say(f"moved, {time.monotonic() - began:.1f} s after the call:")
        report.check("the same floating IP now reaches violet1", ok)
        ended = becomes_true(lambda: not carries(near, far))  # once the rules are in place
        report.check("and a running connection with amber1 is ended", ended)
    return address


def _kill(report: DemoReport, site: RoutedSite, address: str) -> None:
    report.step(
        "Kill the L3 agent",
        [
            f"kill -9 under a ping every 10 ms to {address}, a connection to it, and one",
            "from amber1 to the outside world:",
        ],
    )
    agent = site.cloud.hosts[1].l3
    listeners = site.listeners
    with (
        connected(site.world, address, listeners["violet1"]) as inward,
        connected(site.amber, WORLD, listeners["world"]) as outward,
        site.world.pinging(address, interval=0.01) as running,
    ):
        agent.kill()
        carried = [carries(*each, TIMEOUT) for each in (inward, outward)]
        with connected(site.world, address, listeners["violet1"]) as fresh:
            carried.append(carries(*fresh, TIMEOUT))
        report.check("without the agent both go on, and a new connection passes", all(carried))
        seconds = agent.start()
        kept = [carries(*each, TIMEOUT) for each in (inward, outward)]
        ping = running.stop()
    report.say(f"ready again after {seconds:.1f} s: {ping.sent} sent, {ping.lost} lost")
    report.check("a killed L3 agent costs no packet", ping.lost == 0 and ping.sent > 0)
    report.check("and ends no connection", all(kept))
    status, lines = plan_of(agent, "l3")
    report.say("netfw plan --agent l3, on host2:")
    report.quote(lines)
    report.check("the plan of the L3 agent is empty", status == 0)


def _remove(report: DemoReport, site: RoutedSite) -> None:
    report.step("Delete the router", ["and look for what was made for it"])
    network, router = site.cloud.network, site.router
    for floating in list(network.ips()):
        network.delete_ip(floating)
    for port in list(network.ports(device_id=router.id, device_owner=INTERFACE)):
        network.remove_interface_from_router(router, port_id=port.id)
    network.delete_router(router)
    gone = becomes_true(lambda: not any(_remains(h, str(router.id)) for h in site.cloud.hosts))
    report.check("no namespace, process or file of the router is left on either host", gone)


def _remains(host: ServedHost, router: str) -> list[str]:
    """Return namespaces, processes and files of the router."""
    found = files_named(host.l3.directory, router)
    found += host.host.attempt(["pgrep", "-f", router]).output.split()
    return found + [name for name in host.host.run(["ip", "netns"]).split() if router in name]
