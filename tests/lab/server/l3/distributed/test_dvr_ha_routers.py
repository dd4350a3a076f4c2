"""Routers that are distributed, and whose central part is highly available."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from netfw.errors import InvalidInput
from netfw.server.db import Database
from tests.lab.server.l3.distributed.samples import (
    SNAT,
    central_hosts,
    central_subnets,
    dvr_router,
    ports_with,
)
from tests.lab.server.l3.environment import ADMIN, ANNA, Layer3
from tests.lab.server.l3.ha_samples import (
    activate,
    ha_networks,
    ha_ports,
    l3_agent,
    record,
    router_of,
    vrids,
)

pytestmark = pytest.mark.spec("L3-65", "API-17")

BOTH = frozenset({"one", "two"})
KINDS = [(ha, distributed) for ha in (False, True) for distributed in (False, True)]


@pytest.fixture
def core(file_database: Database) -> Layer3:
    made = Layer3(file_database)
    for host, mode in (("one", "dvr_snat"), ("two", "dvr_snat"), ("compute", "dvr")):
        l3_agent(made, host, mode=mode)
    return made


def connected_router(core: Layer3, **body: bool) -> tuple[str, str]:
    """Create a router with a gateway and an interface; return it and the interface's subnet."""
    router, (_, subnet) = core.router(ADMIN, project_id="anna", **body), core.inside()
    core.connect(router, subnet_id=subnet)
    core.lead_out(router, core.outside()[0], ADMIN)
    return router, subnet


def ha_hosts(core: Layer3, router: str) -> list[str]:
    return [port["binding:host_id"] for port in ha_ports(core, router)]


def test_the_central_part_is_on_several_hosts(core: Layer3) -> None:
    router, subnet = connected_router(core, ha=True, distributed=True)
    assert central_subnets(core, router) == [[subnet]]
    assert central_hosts(core, router) == {("", BOTH)}
    assert ha_hosts(core, router) == ["one", "two"]
    assert vrids(core)[router][1] == router_of(core, router).vrid
    (interface,) = ports_with(core, router, "network:router_interface_distributed")
    assert (interface.binding.host, interface.binding.hosts) == ("", frozenset())


def test_its_ports_are_bound_to_the_active_host(core: Layer3) -> None:
    router, _ = connected_router(core, ha=True, distributed=True)
    for host in ("one", "two"):
        activate(core, router, host)
        assert central_hosts(core, router) == {(host, BOTH)}
    _, other = core.inside("10.1.0.0/24")
    core.connect(router, subnet_id=other)
    assert len(ports_with(core, router, SNAT)) == 2
    assert central_hosts(core, router) == {("two", BOTH)}
    (interface, _) = ports_with(core, router, "network:router_interface_distributed")
    assert interface.binding.host == ""


def test_no_host_has_it_without_a_gateway(core: Layer3) -> None:
    router, _ = connected_router(core, ha=True, distributed=True)
    core.update("router", router, ADMIN, external_gateway_info=None)
    assert (ha_hosts(core, router), central_hosts(core, router)) == ([], set())
    assert len(ha_networks(core)) == 1
    core.lead_out(router, core.outside("198.51.100.0/24")[0], ADMIN)
    assert ha_hosts(core, router) == ["one", "two"]


def test_an_agent_that_is_deleted_loses_it(core: Layer3) -> None:
    router, _ = connected_router(core, ha=True, distributed=True)
    activate(core, router, "one")
    (agent,) = core.find("agent", host="one")
    core.delete("agent", agent["id"], ADMIN)
    assert ha_hosts(core, router) == ["two"]
    assert central_hosts(core, router) == {("", frozenset({"two"}))}


def expected_ports(ha: bool, distributed: bool) -> Mapping[str, int]:
    interface = "network:router_interface"
    if distributed:
        interface = "network:router_interface_distributed"
    elif ha:
        interface = "network:ha_router_replicated_interface"
    ports = {interface: 1, "network:router_gateway": 1}
    if distributed:
        ports[SNAT] = 1
    if ha:
        ports["network:router_ha_interface"] = 2
    return ports


@pytest.mark.parametrize("before", KINDS)
@pytest.mark.parametrize("after", KINDS)
def test_each_kind_of_router_becomes_each_other_while_it_is_down(
    core: Layer3, before: tuple[bool, bool], after: tuple[bool, bool]
) -> None:
    ha, distributed = before
    router, _ = connected_router(core, ha=ha, distributed=distributed)
    if before != after:
        with pytest.raises(InvalidInput, match="changes only while the router is down"):
            core.update("router", router, ADMIN, ha=after[0], distributed=after[1])
    core.update("router", router, ADMIN, admin_state_up=False)
    core.update("router", router, ADMIN, ha=after[0], distributed=after[1])
    owners = [port["device_owner"] for port in core.ports_of(router)]
    assert {owner: owners.count(owner) for owner in owners} == expected_ports(*after)
    assert bool(vrids(core)) == bool(ha_networks(core)) == after[0]
    if not after[0]:
        ((host, hosts),) = central_hosts(core, router)
        assert (host in BOTH, hosts) == (True, frozenset())
    else:
        assert {hosts for _, hosts in central_hosts(core, router)} == {BOTH}


def test_a_conversion_leaves_hosts_that_cannot_have_it(file_database: Database) -> None:
    core = Layer3(file_database)
    l3_agent(core, "old")
    router, _ = connected_router(core)
    core.update("router", router, ADMIN, admin_state_up=False)
    core.update("router", router, ADMIN, distributed=True)
    assert core.find("l3_agent", router_id=router) == []
    assert core.show("router", router)["status"] == "DOWN"
    l3_agent(core, "one", mode="dvr_snat")
    assert central_hosts(core, router) == {("one", frozenset())}
    core.update("router", router, ADMIN, external_gateway_info=None)
    assert core.find("l3_agent", router_id=router) == []
    core.update("router", router, ADMIN, distributed=False)
    assert [each["host"] for each in core.find("l3_agent", router_id=router)] == ["old"]


@pytest.mark.spec("API-18")
@pytest.mark.parametrize(("ha", "distributed"), KINDS)
def test_defaults_of_the_server_decide_what_a_members_router_is(
    file_database: Database, ha: bool, distributed: bool
) -> None:
    core = Layer3(file_database, l3_ha=ha, router_distributed=distributed)
    made = core.create("router", ANNA, name="r")
    assert (made["ha"], made["distributed"]) == (ha, distributed)
    made = core.create("router", ADMIN, name="r", ha=not ha, distributed=not distributed)
    assert (made["ha"], made["distributed"]) == (not ha, not distributed)


def test_router_and_all_that_it_had_are_gone_together(core: Layer3) -> None:
    outside, _ = core.outside()
    before = {table: len(rows) for table, rows in record(core).items()}
    router = dvr_router(core, ha=True, external_gateway_info={"network_id": outside})
    assert ha_hosts(core, router) == ["one", "two"]
    core.delete("router", router)
    after = {table: len(rows) for table, rows in record(core).items()}
    for table in ("ports", "routers", "assignments", "ha_networks", "vrids", "networks"):
        assert after[table] == before[table]
