"""Where the ports of routers are bound."""

from __future__ import annotations

from uuid import UUID

import pytest

from netfw.model.resource import Kind, Ref
from netfw.server.agents.agents import L3_AGENT
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db import Database
from netfw.server.scheduling.assignments import AgentAssignments
from tests.lab.server.l3.environment import ADMIN, Layer3
from tests.lab.server.l3.ha_samples import l3_agent

pytestmark = pytest.mark.spec("API-06")


def hosts(core: Layer3, router: str) -> dict[str, str]:
    ports = core.ports_of(router)
    return {port["device_owner"]: port["binding:host_id"] for port in ports}


@pytest.fixture
def core(file_database: Database) -> Layer3:
    return Layer3(file_database)


def test_ports_of_a_plain_router_are_where_it_is(core: Layer3) -> None:
    l3_agent(core, "one")
    outside, _ = core.outside()
    _, subnet = core.inside()
    router = core.router()
    core.connect(router, subnet_id=subnet)
    assert hosts(core, router) == {"network:router_interface": "one"}
    core.lead_out(router, outside)
    assert hosts(core, router) == {
        "network:router_interface": "one",
        "network:router_gateway": "one",
    }


def test_a_port_made_by_a_user_is_bound_with_its_router(core: Layer3) -> None:
    l3_agent(core, "one")
    network, _ = core.inside()
    router = core.router()
    core.connect(router, port_id=core.port(network)["id"])
    assert hosts(core, router) == {"network:router_interface": "one"}


def test_ports_follow_a_router_that_gets_another_agent(core: Layer3) -> None:
    _, subnet = core.inside()
    router = core.router()
    core.connect(router, subnet_id=subnet)
    assert hosts(core, router) == {"network:router_interface": ""}
    serving, target = (
        AgentAssignments(L3_AGENT, core.context.settings),
        Ref(Kind.ROUTER, UUID(router)),
    )
    core.context.run(ADMIN, lambda unit: serving.assign(unit, target, "one"))
    assert hosts(core, router) == {"network:router_interface": "one"}

    def move(unit: UnitOfWork) -> None:
        serving.unassign(unit, target, "one")
        serving.assign(unit, target, "two")

    def move_on(unit: UnitOfWork) -> None:
        serving.assign(unit, target, "three")
        serving.unassign(unit, target, "two")

    core.context.run(ADMIN, move)
    assert hosts(core, router) == {"network:router_interface": "two"}
    core.context.run(ADMIN, move_on)
    assert hosts(core, router) == {"network:router_interface": "three"}
    core.disconnect(router, subnet_id=subnet)
    core.delete("router", router)


def test_only_the_central_part_of_a_distributed_router_is_somewhere(core: Layer3) -> None:
    l3_agent(core, "one", mode="dvr_snat")
    outside, _ = core.outside()
    _, subnet = core.inside()
    router = core.router(ADMIN, distributed=True)
    core.connect(router, ADMIN, subnet_id=subnet)
    core.lead_out(router, outside, ADMIN)
    assert hosts(core, router) == {
        "network:router_interface_distributed": "",
        "network:router_gateway": "one",
        "network:router_centralized_snat": "one",
    }
