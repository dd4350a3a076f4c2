"""Statuses of distributed routers and their floating IPs."""

from __future__ import annotations

import pytest

from netfw.server.db import Database
from tests.lab.server.l3.environment import ADMIN
from tests.lab.server.l3.ha_samples import l3_agent
from tests.lab.server.l3.status_samples import ACTIVE, DOWN, ERROR, Site

pytestmark = pytest.mark.spec("API-18")


@pytest.mark.spec("API-19", "L3-62")
def test_the_host_of_the_port_serves_the_floating_ip_of_a_distributed_router(
    file_database: Database,
) -> None:
    site = Site(file_database, distributed=True)
    l3_agent(site.core, "vm", mode="dvr")
    assert site.report("floatingip", ACTIVE, "vm") == "ACTIVE"
    l3_agent(site.core, "net", mode="dvr_snat")
    assert site.report("floatingip", DOWN, "net") == "ACTIVE", "it is not there"
    l3_agent(site.core, "vm", mode="dvr_no_external")
    assert site.body("floatingip")["status"] == "DOWN", "until the new host reports"
    assert site.report("floatingip", ACTIVE, "vm") == "DOWN"
    assert site.report("floatingip", ACTIVE, "net") == "ACTIVE"


def test_a_former_report_of_a_host_does_not_count_after_its_port_returns(
    file_database: Database,
) -> None:
    site = Site(file_database, distributed=True)
    l3_agent(site.core, "vm", mode="dvr")
    assert site.report("floatingip", ACTIVE, "vm") == "ACTIVE"
    for host in ("", "vm"):
        site.core.update("port", site.port, ADMIN, **{"binding:host_id": host})
    site.reconcile()
    assert site.body("floatingip")["status"] == "DOWN"


def test_a_distributed_router_is_as_its_central_part(file_database: Database) -> None:
    site = Site(file_database, distributed=True)
    l3_agent(site.core, "vm", mode="dvr")
    assert site.body("router")["status"] == "DOWN", "no host has the central part"
    l3_agent(site.core, "net", mode="dvr_snat")
    assert site.body("router")["status"] == "BUILD"
    assert site.report("router", ERROR, "vm") == "BUILD"
    assert site.report("router", ACTIVE, "net") == "ACTIVE"
    (agent,) = site.core.find("agent", host="net")
    site.core.delete("agent", agent["id"], ADMIN)
    assert site.body("router")["status"] == "DOWN"


def test_a_distributed_router_without_a_gateway_needs_no_host(file_database: Database) -> None:
    site = Site(file_database, distributed=True)
    l3_agent(site.core, "net", mode="dvr_snat")
    site.core.delete("floatingip", site.floatingip)
    site.core.update("router", site.router, ADMIN, external_gateway_info=None)
    assert (site.hosts(), site.body("router")["status"]) == (set(), "ACTIVE")
    site.reconcile()
    assert (site.hosts(), site.body("router")["status"]) == (set(), "ACTIVE")
