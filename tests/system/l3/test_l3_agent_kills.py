"""An L3 agent that is killed again and again while routers and floating IPs come and go.

``NETFW_SEEDS=25`` makes it 200 kills.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from netfw.testing.lab.wait import wait_until
from tests.system.l3.edge_site import EdgeSite
from tests.system.l3.kill_points import AgentKiller, Churn, churning

pytestmark = [
    pytest.mark.exclusive,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]
SEEDS = int(os.environ.get("NETFW_SEEDS", "1"))
KILLS = 8
"""For each seed."""


def desired(edge: EdgeSite) -> dict[str, dict[str, set[str]]]:
    """Return the addresses by device and router, as the API has them."""
    routers: dict[str, dict[str, set[str]]] = {each.id: {} for each in edge.network.routers()}
    for port in edge.network.ports():
        if port.device_id in routers:
            kind = "qg-" if port.device_owner == "network:router_gateway" else "qr-"
            addresses = {str(each["ip_address"]) for each in port.fixed_ips}
            routers[port.device_id][f"{kind}{port.id}"[:14]] = addresses
    for floating in edge.network.ips():
        if floating.router_id is not None:
            devices = routers[floating.router_id]
            gateway = next(name for name in devices if name.startswith("qg-"))
            devices[gateway].add(floating.floating_ip_address)
    return routers


def observed(edge: EdgeSite) -> dict[str, dict[str, set[str]]]:
    """Return the addresses by device and router, as the kernel has them."""
    host = edge.router_host.host
    names = (line.split()[0] for line in host.run(["ip", "netns", "list"]).splitlines())
    return {
        name.removeprefix("qrouter-"): {
            link["ifname"]: {a["local"] for a in link["addr_info"] if a["scope"] == "global"}
            for link in _links(host, name)
        }
        for name in names
        if name.startswith("qrouter-")
    }


def _links(host: Any, name: str) -> list[Any]:
    shown: list[Any] = json.loads(host.run(["ip", "-j", "-n", name, "address"]))
    return [link for link in shown if link["ifname"] != "lo"]


def check_converged(edge: EdgeSite) -> None:
    edge.await_converged()
    assert observed(edge) == desired(edge)
    wait_until(lambda: {each.status for each in edge.network.ips() if each.router_id} == {"ACTIVE"})


@pytest.mark.spec("L3-11", "L3-30")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_an_agent_killed_at_any_point_interrupts_nothing(
    edge: EdgeSite, seed: int, tmp_path: Path, record_property: Any
) -> None:
    """Check traffic, processes, the next plan, and that the host is as the API says."""
    chance = random.Random(seed)
    churn = Churn(edge, chance)
    edge.l3.environment["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    killer = AgentKiller(edge, churn, chance, tmp_path)
    try:
        edge.l3.stop()
        killer.start_seconds = edge.l3.start()
        with edge.undisturbed(), churning(churn):
            for _ in range(KILLS):
                killer.strike()
        check_converged(edge)
    finally:
        record_property("killed at", f"{' '.join(killer.points)}; {churn.calls} calls")
        edge.l3.environment.clear()
        churn.remove_all()
        check_converged(edge)
    assert edge.processes().keys() == {"radvd", "haproxy"}
