"""Statuses in the answers to requests on routers: what the next GET shows."""

from __future__ import annotations

import pytest

from netfw.drivers.server.query import Body
from netfw.server.db import Database
from tests.lab.server.l3.environment import ADMIN, ANNA, Layer3
from tests.server.core.agent_samples import beat

pytestmark = pytest.mark.spec("API-18")

SCHEDULED = [("BUILD", ["a"]), ("DOWN", [])]


class Cloud:
    """External networks, and L3 agents on some hosts."""

    def __init__(self, database: Database) -> None:
        self.core = Layer3(database)
        self.gateway = {"external_gateway_info": {"network_id": self.core.outside()[0]}}

    def start_agents(self, *hosts: str) -> None:
        for host in hosts:
            self.core.core.agent_services.agents([beat(host, "L3 agent")])

    def later(self, id: str) -> Body:
        """Return what a GET shows; check that it is the same after the server reconciled."""
        first = self.core.show("router", id)
        self.core.core.agent_services.rescheduler.reconcile()
        assert self.core.show("router", id) == first
        return first


@pytest.fixture
def cloud(file_database: Database) -> Cloud:
    return Cloud(file_database)


@pytest.mark.parametrize(("status", "hosts"), SCHEDULED)
def test_a_new_router_with_a_gateway(cloud: Cloud, status: str, hosts: list[str]) -> None:
    cloud.start_agents(*hosts)
    made = cloud.core.create("router", ADMIN, name="r", **cloud.gateway)
    assert made["status"] == status
    assert cloud.later(made["id"]) == made


@pytest.mark.parametrize(("status", "hosts"), SCHEDULED)
def test_a_router_that_gets_a_gateway(cloud: Cloud, status: str, hosts: list[str]) -> None:
    cloud.start_agents(*hosts)
    router = cloud.core.create("router", ADMIN, name="r")
    assert router["status"] == "ACTIVE"
    assert cloud.later(router["id"]) == router
    changed = cloud.core.update("router", router["id"], ADMIN, **cloud.gateway)
    assert changed["status"] == status
    assert cloud.later(router["id"]) == changed


def test_a_router_that_loses_its_gateway(cloud: Cloud) -> None:
    made = cloud.core.create("router", ADMIN, name="r", **cloud.gateway)
    changed = cloud.core.update("router", made["id"], ADMIN, external_gateway_info=None)
    assert changed["status"] == "ACTIVE", "no host is needed"
    assert cloud.later(made["id"]) == changed


@pytest.mark.parametrize(("status", "hosts"), SCHEDULED)
def test_a_router_that_gets_an_interface(cloud: Cloud, status: str, hosts: list[str]) -> None:
    cloud.start_agents(*hosts)
    router, (_, subnet) = cloud.core.router(), cloud.core.inside()
    cloud.core.connect(router, ANNA, subnet_id=subnet)
    assert cloud.later(router)["status"] == status
    routes = [{"destination": "192.0.2.0/24", "nexthop": "10.0.0.9"}]
    answer = cloud.core.act(router, "add_extraroutes", routes=routes)
    assert answer["status"] == status
    if not hosts:
        cloud.core.act(router, "remove_extraroutes", routes=routes)
        cloud.core.disconnect(router, ANNA, subnet_id=subnet)
        assert cloud.later(router)["status"] == "ACTIVE"
