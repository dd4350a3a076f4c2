"""Demo section 6, continued: the router becomes highly available, and its host is killed."""

from __future__ import annotations

from collections.abc import Iterator

from netfw.cli.demo.agents import becomes_true, reached
from netfw.cli.demo.host_diagram import render_hosts
from netfw.cli.demo.report import DemoReport
from netfw.cli.demo.router_topology import RoutedSite
from netfw.cli.demo.server import ServedHost
from netfw.drivers.values.router_values import HA_PRIORITY

ADVERT_INTERVAL = 1
"""Seconds between two VRRP advertisements; a standby that misses three in a row takes over."""
DEAD_INTERVAL = ADVERT_INTERVAL * (3 + (256 - HA_PRIORITY) / 256)
"""Seconds after which a standby takes over: three intervals and the skew."""
CLIENT = """
network.update_router(edge, is_admin_state_up=False)
network.update_router(edge, is_ha=True)
network.update_router(edge, is_admin_state_up=True)
"""


def demo_failover(report: DemoReport, site: RoutedSite) -> None:
    """Run the router on both hosts, kill the active host, and start it again."""
    standby, active = site.cloud.hosts
    _convert(report, site)
    _add_standby(report, site, standby)
    _kill_host(report, site, active)
    _return(report, site, active)


def _convert(report: DemoReport, site: RoutedSite) -> None:
    report.step(
        "Make the router highly available",
        ["on every host with an L3 agent, with its addresses on one of them:"],
    )
    report.quote(CLIENT.strip().splitlines())
    network = site.cloud.network
    for change in ({"is_admin_state_up": False}, {"is_ha": True}, {"is_admin_state_up": True}):
        site.router = network.update_router(site.router, **change)
    ok = becomes_true(lambda: site.cloud.ha_states(site.router) == {"host2": "active"})
    report.check("host2 has it, and is active", ok)


def _add_standby(report: DemoReport, site: RoutedSite, host: ServedHost) -> None:
    report.step(
        "Start an L3 agent on host1, too",
        [
            "the router is on both hosts now, with the same MAC addresses and rules; only the",
            "active one has addresses and routes, and stays active when another one joins:",
        ],
    )
    seconds = host.l3.start()
    report.say(f"ready after {seconds:.1f} s")
    ok = _quote_pair(report, site, {"host1": "standby", "host2": "active"})
    report.check("host1 is the standby, host2 stays active", ok)


def _kill_host(report: DemoReport, site: RoutedSite, active: ServedHost) -> None:
    network = site.cloud.network
    floating = network.create_ip(
        floating_network_id=site.router.external_gateway_info["network_id"],
        port_id=site.cloud.named("amber1").id,
    )
    address = str(floating.floating_ip_address)
    report.step(
        "Kill host2",
        [
            "kill -9 of all its processes, agents and switch, under a ping every 10 ms to",
            f"{address}, a new floating IP of amber1 on host1; host1 takes over when three",
            "advertisements are missing, which are due every second here (by default every two):",
        ],
    )
    report.check("the outside world reaches amber1 through host2", reached(site.world, address))
    with site.world.pinging(address, interval=0.01) as running:
        active.host.crash()
        back = becomes_true(lambda: reached(site.world, address))
        ping = running.stop()
    active.end()
    known = becomes_true(lambda: site.cloud.ha_states(site.router).get("host1") == "active")
    report.quote(_draw_pair(site, killed=active))
    outage = ping.outage_by_clock
    report.say(f"{ping.sent} sent, {ping.lost} lost: {outage:.2f} s without an answer;")
    report.say(f"VRRP waits for {DEAD_INTERVAL:.2f} s at most")
    report.check("host1 takes over, and amber1 is reached through it", back)
    report.check("the API shows host1 as active", known)
    report.check("amber1 goes out through host1", reached(site.amber, "203.0.113.1"))


def _return(report: DemoReport, site: RoutedSite, host: ServedHost) -> None:
    report.step(
        "Start host2 again",
        ["switch, L2 agent and L3 agent; the router is still active on host1, and stays there:"],
    )
    host.host.revive()
    host.start()
    host.l3.start()
    ok = _quote_pair(report, site, {"host1": "active", "host2": "standby"})
    report.check("it returns as the standby", ok)


def _quote_pair(report: DemoReport, site: RoutedSite, expected: dict[str, str]) -> bool:
    """Quote both hosts; return whether their roles are soon the *expected* ones."""
    ok = becomes_true(lambda: site.cloud.ha_states(site.router) == expected)
    report.quote(_draw_pair(site))
    return ok


def _draw_pair(site: RoutedSite, killed: ServedHost | None = None) -> Iterator[str]:
    """Return a diagram of both hosts: the role by the API, the addresses by the kernel."""
    roles = site.cloud.ha_states(site.router)
    contents = {
        each.host.name: ("killed",)
        if each is killed
        else (roles.get(each.host.name, "no router"), *_addresses(site, each))
        for each in site.cloud.hosts
    }
    return render_hosts(contents, "VRRP" if killed is None else "    ")


def _addresses(site: RoutedSite, host: ServedHost) -> Iterator[str]:
    """Yield the IPv4 addresses of the router on a host, inside and outside."""
    netns = f"qrouter-{site.router.id}"
    output = host.host.attempt(["ip", "-n", netns, "-br", "-4", "address"]).output
    rows = [line.split() for line in output.splitlines()]
    inside = [
        each.partition("/")[0] for row in rows if row[0].startswith("qr-") for each in row[2:]
    ]
    outside = [each for row in rows if row[0].startswith("qg-") for each in row[2:]]
    yield ", ".join(sorted(inside)) or "no address"
    gateways = [each.partition("/")[0] for each in outside if not each.endswith("/32")]
    if gateways:
        yield f"{', '.join(gateways)}, floating IPs: {len(outside) - len(gateways)}"
