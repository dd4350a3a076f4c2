"""Which L3 agents have routers, by the modes that they report."""

from __future__ import annotations

import pytest

from netfw.errors import Conflict
from netfw.server.db import Database
from tests.lab.server.l3.distributed.samples import dvr_router
from tests.lab.server.l3.environment import ADMIN, Layer3
from tests.lab.server.l3.ha_samples import l3_agent

pytestmark = pytest.mark.spec("L3-60")


@pytest.fixture
def core(file_database: Database) -> Layer3:
    return Layer3(file_database)


def hosts(core: Layer3, router: str) -> list[str]:
    return sorted(each["host"] for each in core.find("l3_agent", router_id=router))


def test_each_part_is_where_the_mode_allows_it(core: Layer3) -> None:
    for mode in ("dvr", "dvr_no_external"):
        l3_agent(core, mode, mode=mode)
    outside, _ = core.outside()
    plain, central = core.router(), dvr_router(core)
    for router in (plain, central):
        core.lead_out(router, outside, ADMIN)
        assert hosts(core, router) == []
    l3_agent(core, "legacy", mode="legacy")
    assert (hosts(core, plain), hosts(core, central)) == (["legacy"], [])
    l3_agent(core, "dvr_snat", mode="dvr_snat")
    assert (hosts(core, plain), hosts(core, central)) == (["legacy"], ["dvr_snat"])
    (agent,) = core.find("agent", host="dvr_no_external")
    with pytest.raises(Conflict, match="needs an agent whose mode is dvr_snat, not dvr_no_ext"):
        core.create("l3_router", ADMIN, agent_id=agent["id"], router_id=central)


def test_routers_leave_an_agent_that_gets_another_mode(core: Layer3) -> None:
    l3_agent(core, "one", mode="dvr_snat")
    outside, _ = core.outside()
    plain, central = core.router(), dvr_router(core)
    for router in (plain, central):
        core.lead_out(router, outside, ADMIN)
        assert hosts(core, router) == ["one"]
    l3_agent(core, "one", mode="legacy")
    assert (hosts(core, plain), hosts(core, central)) == (["one"], [])
    assert core.show("router", central)["status"] == "DOWN"
    l3_agent(core, "two", mode="dvr_snat")
    assert (hosts(core, plain), hosts(core, central)) == (["one"], ["two"])
    l3_agent(core, "one", mode="dvr")
    assert (hosts(core, plain), hosts(core, central)) == (["two"], ["two"])


def test_a_distributed_router_is_assigned_while_it_has_a_gateway(core: Layer3) -> None:
    l3_agent(core, "one", mode="dvr_snat")
    router, (_, subnet) = dvr_router(core), core.inside()
    core.connect(router, subnet_id=subnet)
    rescheduler = core.core.agent_services.rescheduler
    assert rescheduler.reconcile() == 0
    assert hosts(core, router) == []
    core.lead_out(router, core.outside()[0], ADMIN)
    assert hosts(core, router) == ["one"]
    core.update("router", router, ADMIN, external_gateway_info=None)
    assert rescheduler.reconcile() == 0
    assert hosts(core, router) == []
