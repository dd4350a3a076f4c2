"""Agents, switches, hosts and a server that fail around a distributed router, under pings.

The networks are VLANs, since userspace tunnels lose packets whenever a device appears on a host.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from netfw.cli.demo.agents import plan_of
from netfw.cli.demo.server import ServedHost
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.tcp_stream import connected, passes
from netfw.testing.lab.wait import wait_until
from tests.system.l3.distributed.pair import DistributedPair, distributed_pair
from tests.system.l3.distributed.site import DistributedSite, Targets
from tests.system.l3.environment import crash, is_reached, prefer_switch, revive
from tests.system.l3.ha.ha_site import AWAY, TAKEOVER
from tests.system.l3.kill_points import Churn, churning
from tests.system.l3.routed_networks import WORLD4, WORLD6
from tests.system.pings import pinging_all

pytestmark = [
    pytest.mark.exclusive,
    pytest.mark.parametrize("site", ["vlan"], indirect=True),
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]
SEEDS = int(os.environ.get("NETFW_SEEDS", "1"))
KILLS = 8
"""For each seed."""
PORT = 4250
"""The first one of connections that have to survive."""


def all_flows(site: DistributedSite) -> Targets:
    return {**site.east_west(), **site.north_south()}


def local_flows(site: DistributedSite) -> Targets:
    """Return the flows that need no central part."""
    return {**site.east_west(), **site.by_floating_ip()}


@contextmanager
def connected_all(site: DistributedSite) -> Iterator[None]:
    """Check that connections by each part of the router survive the block, in both directions."""
    blue, green = site.blue1.instance, site.green2.instance
    address = str(site.floating_ip.floating_ip_address)
    with ExitStack() as stack:
        streams = {
            name: stack.enter_context(connected(client, server, target, PORT + number))
            for number, (name, client, server, target) in enumerate((
                ("east-west IPv4", blue, green, site.green2.address(4)),
                ("east-west IPv6", green, blue, site.blue1.address(6)),
                ("SNAT", blue, site.world, WORLD4),
                ("gateway IPv6", blue, site.world, WORLD6),
                ("floating IP in", site.world, green, address),
                ("floating IP out", green, site.world, WORLD4),
            ))
        }  # fmt: skip
        yield
        for name, ends in streams.items():
            assert passes(*ends), name
            assert passes(*reversed(ends)), name


@contextmanager
def undisturbed(flows: Targets) -> Iterator[None]:
    """Check that no packet of *flows* is lost in the block."""
    with pinging_all(flows) as pings:
        yield
        assert not pings.lost(), pings.report()


def await_ready(site: DistributedSite) -> None:
    """Wait until all agents are ready, and all floating IPs ACTIVE."""
    for host in site.hosts:
        for agent in (host.agent, host.l3):
            agent.wait_for(lambda status: bool(status.get("ready")))
    wait_until(lambda: {each.status for each in site.network.ips() if each.port_id} == {"ACTIVE"})


def await_converged(site: DistributedSite) -> None:
    """Wait until all agents are ready and have nothing to do."""
    await_ready(site)
    for host in site.hosts:
        for agent, kind in ((host.agent, "l2"), (host.l3, "l3")):
            wait_until(
                lambda a=agent, k=kind: plan_of(a, k)[0] == 0,
                lambda a=agent, k=kind: "\n".join(plan_of(a, k)[1]),
            )


def in_namespace(host: ServedHost, name: str, *words: str) -> str:
    """Run a command in a namespace of a host; return its output, also of a failure."""
    return host.host.attempt(["ip", "netns", "exec", name, *words]).output


@pytest.mark.nightly
@pytest.mark.spec("L3-11", "L3-61", "L3-62")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_agents_killed_at_any_point_interrupt_nothing(
    site: DistributedSite, seed: int, record_property: Any
) -> None:
    """Check traffic, and that all hosts are as the API says, while things come and go.

    The central host is cut off during half of it: only what passes by it is interrupted.
    """
    chance = random.Random(seed)
    churn = Churn(site, chance, hosts=[host.host.name for host in site.hosts])
    agents: list[PrivateAgent] = [a for host in site.hosts for a in (host.agent, host.l3)]
    points = []

    def strike() -> None:
        for _ in range(KILLS // 2):
            agent, seconds = chance.choice(agents), chance.uniform(0, 3)
            time.sleep(seconds)  # where the kill strikes is for chance to decide
            agent.kill()
            points.append(f"{agent.name} {seconds:.2f}s")
            agent.spawn()

    try:
        with connected_all(site), undisturbed(local_flows(site)), churning(churn):
            with undisturbed(site.north_south()):
                strike()
            with site.cloud.cut(site.central):
                strike()
        await_ready(site)
    finally:
        record_property("killed at", f"{'; '.join(points)}; {churn.calls} calls")
        churn.remove_all()
    await_converged(site)
    site.await_reached(all_flows(site))


@pytest.mark.spec("L3-11", "L3-61")
def test_a_server_that_is_away_costs_nothing(site: DistributedSite) -> None:
    server = site.cloud.server
    with undisturbed(all_flows(site)):
        server.kill()
        site.second.l3.wait_for(lambda found: bool(found["errors"]))
        server.start()
        site.second.l3.wait_for(lambda found: not found["errors"])
    floating_ip = site.make_floating_ip(site.green1)
    wait_until(lambda: is_reached(site.world, str(floating_ip.floating_ip_address)))
    site.network.delete_ip(floating_ip)


@pytest.mark.spec("L3-11", "L3-61", "L3-62")
def test_a_restarted_switch_has_its_part_again(site: DistributedSite) -> None:
    """Check that other hosts lose nothing meanwhile."""
    elsewhere = {
        name: flow for name, flow in all_flows(site).items()
        if name.startswith(("same host", "SNAT", "gateway"))
    }  # fmt: skip
    with undisturbed(elsewhere):
        site.second.host.restart_switch()
        prefer_switch(site.second.host)
        site.await_reached(all_flows(site))


@contextmanager
def interrupted(pair: DistributedPair, bound: float) -> Iterator[None]:
    """Check that what passes by the central part is back, and was away for *bound* seconds."""
    pair.purge_cached_flows()
    with pinging_all(pair.central()) as pings:
        yield
        pair.site.await_reached(pair.central())
        assert pings.outage() <= bound, pings.report()


@pytest.mark.nightly
@pytest.mark.spec("L3-61", "L3-62", "L3-63", "L3-65", "L3-40")
def test_a_failed_central_part_takes_nothing_else_with_it(site: DistributedSite) -> None:
    """Check it with a keepalived that is killed, and with a host that crashes.

    The host has the central part of another router, too, which is not highly available.
    """
    with distributed_pair(site) as pair:
        local = local_flows(site)
        local |= {f"{name} of the pair": flow for name, flow in pair.local().items()}
        with undisturbed(local):
            if pair.await_active() is not site.second:
                pair.kill_keepalived(site.central)
                wait_until(lambda: pair.active_hosts() == [site.second])
            with interrupted(pair, TAKEOVER):
                pair.kill_keepalived(site.second)
                wait_until(lambda: pair.active_hosts() == [site.central])
            assert pair.await_active() is site.central  # which has no instances
            with interrupted(pair, AWAY):
                crash(site.central)
                wait_until(lambda: site.second in pair.active_hosts())  # addresses stay in a kernel
            for name in ("SNAT", "gateway IPv6"):
                instance, address = site.north_south()[name]
                assert not is_reached(instance, address), name
            revive(site.central)
            assert pair.await_active() is site.second
        site.await_reached({**pair.local(), **pair.central()})
        site.await_reached(site.north_south())


@pytest.mark.spec("L3-61", "L3-62", "L3-63")
def test_what_is_removed_by_hand_is_back(site: DistributedSite) -> None:
    # The audit interval of the site is a day.
    router, central = f"qrouter-{site.router.id}", f"snat-{site.router.id}"
    outside = f"fip-{site.outside.network.id}"
    first, second, last = site.hosts
    cases = {
        "rule of a subnet": (first, router, "ip rule del pref 40000"),
        "rule of a subnet, IPv6": (first, router, "ip -6 rule del pref 40000"),
        "rule of a floating IP": (second, router, "ip rule del pref 32768"),
        "route of a floating IP": (
            second, outside, f"ip route del {site.floating_ip.floating_ip_address}"
        ),
        "link of a floating IP": (second, outside, "ip link del type veth"),
        "namespace of a local part": (first, "", f"ip netns del {router}"),
        "namespace of a gateway": (second, "", f"ip netns del {outside}"),
        "namespace of the central part": (last, "", f"ip netns del {central}"),
    }  # fmt: skip
    for name, (host, namespace, words) in cases.items():
        command = words.split()
        if "veth" in words:
            device = in_namespace(host, outside, "ip", "-br", "link", "show", "type", "veth")
            command = ["ip", "link", "del", device.partition("@")[0]]
        host.host.run(["ip", "netns", "exec", namespace, *command] if namespace else command)
        for flow, (instance, address) in all_flows(site).items():
            wait_until(lambda i=instance, a=address: is_reached(i, a), f"{name}: {flow}")
    await_converged(site)
