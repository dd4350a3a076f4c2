"""Agents, server and database that are away, under traffic through a router that must not notice.

Traffic is pings every 10 ms and TCP connections, by SNAT, a floating IP and between networks.
"""

from __future__ import annotations

import pytest

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
def test_a_stopped_and_started_agent_interrupts_nothing(edge: EdgeSite) -> None:
    with edge.undisturbed():
        assert edge.l3.stop() == 0
        edge.l3.start()
        assert edge.plan() == []


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
    with edge.undisturbed():
        server.kill()
        edge.l3.wait_for(lambda found: bool(found["errors"]))
        edge.l3.kill()
        edge.l3.begin()
        edge.l3.wait_for(lambda found: bool(found.get("errors")))
        server.start()
        with spare_router(edge) as spare:
            server.kill()  # before or after it hears that the router works
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


def test_a_second_agent_names_the_holder_and_takes_over(edge: EdgeSite) -> None:
    options = {**edge.l3.options, "DEFAULT": dict(edge.l3.options["DEFAULT"])}
    directory = edge.l3.directory.with_name("second")
    options["agent"] = {**options["agent"], "status_file": directory / "status.json"}
    second = PrivateAgent(edge.router_host.host, directory, "netfw.cli.agents.l3", options)
    with edge.undisturbed():
        second.begin()
        try:
            found = second.wait_for(lambda found: bool(found.get("errors")))
            assert f"process {edge.l3.pid} works in" in str(found["errors"])
            assert not found["ready"]
            edge.l3.stop()
            second.wait_for(lambda found: bool(found.get("ready")))
        finally:
            second.stop()
            edge.l3.start()
