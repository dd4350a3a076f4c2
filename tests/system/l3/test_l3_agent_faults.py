"""Agents, server and database that are away, under traffic through a router that must not notice.

Traffic is pings every 10 ms and TCP connections, by SNAT, a floating IP and between networks.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from netfw.testing.conformance.router.lab_environment import REFUSING_TOOL
from netfw.testing.lab.agent import PrivateAgent
from netfw.testing.lab.wait import wait_until
from tests.system.l3.edge_site import EdgeSite
from tests.system.l3.environment import is_reached
from tests.system.l3.spare_router import await_active, external_address, spare_router, status

pytestmark = [
    pytest.mark.exclusive,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@pytest.mark.spec("L3-11")
def test_what_is_made_while_no_agent_runs_is_there_when_one_is_back(edge: EdgeSite) -> None:
    with edge.undisturbed():
        edge.l3.kill()
        with spare_router(edge) as spare:
            assert status(edge, spare.floating_ip) == "DOWN"
            edge.l3.start()
            await_active(edge, spare.router, spare.floating_ip)


@pytest.mark.spec("L3-11", "L3-21")
def test_a_restarted_switch_has_its_routers_again(edge: EdgeSite) -> None:
    # The devices of a switch in userspace go with it, also from namespaces.
    before = edge.processes()
    for _ in range(3):
        edge.router_host.host.restart_switch()
        edge.prefer_switches()
        edge.await_reached()
        edge.await_converged()
    assert edge.processes().keys() == before.keys()


@pytest.mark.spec("L3-10", "L3-30")
def test_a_refused_rule_concerns_its_floating_ip_alone(edge: EdgeSite, tmp_path: Path) -> None:
    address, refused = "203.0.113.160", tmp_path / "refused"
    for name in ("iptables-restore", "ip6tables-restore"):
        real = shutil.which(name)
        (tmp_path / name).write_text(REFUSING_TOOL.format(file=refused, name=name, real=real))
        (tmp_path / name).chmod(0o755)
    refused.write_text(f"{address}/32\n")
    edge.l3.stop()
    edge.l3.environment["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    try:
        edge.l3.start()
        with edge.undisturbed():
            floating = edge.network.create_ip(
                floating_network_id=edge.outside.network.id,
                floating_ip_address=address,
                port_id=edge.db.port.id,
            )
            wait_until(lambda: status(edge, floating) == "ERROR", edge.l3.status)
            edge.l3.wait_for(lambda found: "refused by the suite" in str(found["degraded"]))
            assert status(edge, edge.router) == "ACTIVE"
        refused.write_text("")
        await_active(edge, floating)
        wait_until(lambda: is_reached(edge.world, address))
        edge.network.delete_ip(floating)
        wait_until(lambda: not is_reached(edge.world, address))
    finally:
        edge.l3.environment.clear()


@pytest.mark.spec("L3-10")
def test_a_router_waits_for_a_dead_l2_agent(edge: EdgeSite) -> None:
    wiring = edge.router_host.agent
    with edge.undisturbed():
        wiring.kill()
        with spare_router(edge) as spare:
            edge.l3.wait_for(lambda found: "admitted" in str(found["waiting"]))
            assert status(edge, spare.floating_ip) == "DOWN"
            wiring.start()
            await_active(edge, spare.router, spare.floating_ip)


@pytest.mark.spec("L3-11")
def test_a_server_that_is_away_costs_nothing_and_hears_of_everything(edge: EdgeSite) -> None:
    server = edge.cloud.server
    with edge.undisturbed(), spare_router(edge) as spare:  # its removal arrives afterwards, too
        server.kill()  # before or after it hears that the router works
        edge.l3.wait_for(lambda found: bool(found["errors"]))
        server.start()
        await_active(edge, spare.router, spare.floating_ip)
        wait_until(lambda: is_reached(edge.world, external_address(edge, spare.router)))


@pytest.mark.spec("L3-11")
def test_a_database_that_is_away_costs_nothing(edge: EdgeSite) -> None:
    server = edge.cloud.server
    with edge.undisturbed():
        edge.database.kill()
        wait_until(lambda: not server.ready())
        edge.database.start()
        wait_until(server.ready)
        with spare_router(edge) as spare:
            await_active(edge, spare.router, spare.floating_ip)


@pytest.mark.spec("L3-11")
def test_a_second_agent_names_the_holder_and_takes_over(edge: EdgeSite) -> None:
    options = {**edge.l3.options, "DEFAULT": dict(edge.l3.options["DEFAULT"])}
    directory = edge.l3.directory.with_name("second")
    options["agent"] = {**options["agent"], "status_file": directory / "status.json"}
    second = PrivateAgent(edge.router_host.host, directory, "netfw.cli.agents.l3", options)
    with edge.undisturbed():
        second.spawn()
        try:
            found = second.wait_for(lambda found: bool(found.get("errors")))
            assert f"process {edge.l3.pid} works in" in str(found["errors"])
            assert not found["ready"]
            edge.l3.stop()
            second.wait_for(lambda found: bool(found.get("ready")))
        finally:
            assert second.stop() == 0
            edge.l3.start()
        assert edge.plan() == []
