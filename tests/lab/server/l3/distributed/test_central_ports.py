"""The ports of the central part of distributed routers."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.errors import Conflict
from netfw.server.db import Database
from tests.lab.server.l3.distributed.samples import (
    SNAT,
    central_hosts,
    central_subnets,
    dvr_router,
    ports_with,
)
from tests.lab.server.l3.environment import ADMIN, ANNA, Layer3
from tests.lab.server.l3.ha_samples import l3_agent, record
from tests.server.core.agent_samples import grow_old

pytestmark = pytest.mark.spec("API-19", "L3-63")


@pytest.fixture
def core(file_database: Database) -> Layer3:
    return Layer3(file_database)


def clear_gateway(core: Layer3, router: str) -> None:
    core.update("router", router, ADMIN, external_gateway_info=None)


def test_they_come_and_go_with_interfaces(core: Layer3) -> None:
    outside, _ = core.outside()
    router = dvr_router(core)
    core.lead_out(router, outside, ADMIN)
    subnets = [core.inside(f"10.0.{number}.0/24")[1] for number in range(2)]
    for subnet in subnets:
        core.connect(router, ADMIN, subnet_id=subnet)
    assert central_subnets(core, router) == sorted([subnet] for subnet in subnets)
    (port,) = [
        port
        for port in ports_with(core, router, SNAT)
        if str(port.fixed_ips[0].subnet_id) == subnets[0]
    ]
    assert str(port.fixed_ips[0].address).startswith("10.0.0.")
    assert str(port.fixed_ips[0].address) != "10.0.0.1"
    core.disconnect(router, ADMIN, subnet_id=subnets[0])
    assert central_subnets(core, router) == [[subnets[1]]]
    core.disconnect(router, ADMIN, subnet_id=subnets[1])
    assert central_subnets(core, router) == []
    core.delete("router", router)
    for subnet in subnets:
        core.delete("subnet", subnet)


def test_they_come_and_go_with_the_gateway(core: Layer3) -> None:
    outside, other = core.outside()[0], core.outside("198.51.100.0/24")[0]
    router, (_, subnet) = dvr_router(core), core.inside()
    core.connect(router, ADMIN, subnet_id=subnet)
    assert central_subnets(core, router) == []
    core.lead_out(router, outside, ADMIN)
    (port,) = ports_with(core, router, SNAT)
    core.lead_out(router, other, ADMIN)
    assert [each.id for each in ports_with(core, router, SNAT)] == [port.id], "it stays"
    clear_gateway(core, router)
    assert central_subnets(core, router) == []


def test_ipv6_subnets_of_a_network_share_a_port(core: Layer3) -> None:
    outside, _ = core.outside()
    network, subnet = core.inside()
    slaac = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
    first = core.subnet(network, "2001:db8:1::/64", **slaac)
    second = core.subnet(network, "2001:db8:2::/64")
    router = dvr_router(core)
    core.lead_out(router, outside, ADMIN)
    for each in (subnet, first, second):
        core.connect(router, ADMIN, subnet_id=each)
    assert central_subnets(core, router) == sorted([[subnet], sorted([first, second])])
    (port,) = [each for each in ports_with(core, router, SNAT) if len(each.fixed_ips) == 2]
    core.disconnect(router, ADMIN, subnet_id=first)
    assert central_subnets(core, router) == sorted([[subnet], [second]])
    assert port.id in {each.id for each in ports_with(core, router, SNAT)}


def test_an_interface_of_both_families_has_a_port_for_each(core: Layer3) -> None:
    outside, _ = core.outside()
    network, subnet = core.inside()
    other = core.subnet(network, "2001:db8:1::/64")
    router = dvr_router(core)
    core.lead_out(router, outside, ADMIN)
    core.connect(router, ADMIN, port_id=core.port(network)["id"])
    assert central_subnets(core, router) == sorted([[subnet], [other]])


def test_they_come_and_go_with_a_conversion(core: Layer3) -> None:
    outside, _ = core.outside()
    router, (_, subnet) = core.router(ADMIN, admin_state_up=False), core.inside()
    core.connect(router, ADMIN, subnet_id=subnet)
    core.lead_out(router, outside, ADMIN)
    assert central_subnets(core, router) == []
    core.update("router", router, ADMIN, distributed=True)
    assert central_subnets(core, router) == [[subnet]]
    core.update("router", router, ADMIN, distributed=False)
    assert central_subnets(core, router) == []


def test_conversion_with_a_gateway_in_one_request(core: Layer3) -> None:
    outside, _ = core.outside()
    router, (_, subnet) = core.router(ADMIN, admin_state_up=False), core.inside()
    core.connect(router, ADMIN, subnet_id=subnet)
    gateway = {"external_gateway_info": {"network_id": outside}}
    core.update("router", router, ADMIN, distributed=True, **gateway)
    assert central_subnets(core, router) == [[subnet]]
    core.update("router", router, ADMIN, distributed=False, external_gateway_info=None)
    assert central_subnets(core, router) == []


def tiny(core: Layer3) -> tuple[str, str]:
    """Create a network that, once used, has one address for a gateway and none for other ports."""
    network = core.network()
    pool = [{"start": "10.9.0.2", "end": "10.9.0.2"}]
    subnet = core.subnet(network, "10.9.0.0/29", allocation_pools=pool)
    core.port(network)
    return network, subnet


def connect_a_router_with_a_gateway(core: Layer3, subnet: str) -> Any:
    router = dvr_router(core)
    core.lead_out(router, core.outside()[0], ADMIN)
    return lambda: core.connect(router, ADMIN, subnet_id=subnet)


def lead_a_connected_router_out(core: Layer3, subnet: str) -> Any:
    router, (outside, _) = dvr_router(core), core.outside()
    core.connect(router, ADMIN, subnet_id=core.inside()[1])
    core.connect(router, ADMIN, subnet_id=subnet)
    return lambda: core.lead_out(router, outside, ADMIN)


def convert_a_connected_router(core: Layer3, subnet: str) -> Any:
    router = core.router(ADMIN, admin_state_up=False)
    core.lead_out(router, core.outside()[0], ADMIN)
    core.connect(router, ADMIN, subnet_id=core.inside()[1])
    core.connect(router, ADMIN, subnet_id=subnet)
    return lambda: core.update("router", router, ADMIN, distributed=True)


@pytest.mark.parametrize(
    "prepare",
    [connect_a_router_with_a_gateway, lead_a_connected_router_out, convert_a_connected_router],
)
def test_a_subnet_without_a_free_address_is_a_conflict_that_changes_nothing(
    core: Layer3, prepare: Any
) -> None:
    _, subnet = tiny(core)
    request = prepare(core, subnet)
    before = record(core)
    with pytest.raises(Conflict, match=f"subnet {subnet} has no address left for the central part"):
        request()
    assert record(core) == before


def test_no_quota_counts_them(file_database: Database) -> None:
    core = Layer3(file_database, quotas={"port": 1})
    router, (_, subnet) = dvr_router(core), core.inside()
    core.lead_out(router, core.outside()[0], ADMIN)
    core.connect(router, ANNA, subnet_id=subnet)  # its interface is the one port of the quota
    (port,) = ports_with(core, router, SNAT)
    assert port.project_id == ""


def test_no_user_can_delete_one_that_is_needed(core: Layer3) -> None:
    router, (_, subnet) = dvr_router(core), core.inside()
    core.lead_out(router, core.outside()[0], ADMIN)
    core.connect(router, ADMIN, subnet_id=subnet)
    (port,) = ports_with(core, router, SNAT)
    with pytest.raises(Conflict, match="clear the gateway of the router"):
        core.delete("port", str(port.id), ADMIN)
    core.update("port", str(port.id), ADMIN, fixed_ips=[])
    assert central_subnets(core, router) == [[subnet]], "another one, with an address"


def test_they_are_bound_with_the_gateway_and_follow_the_router(core: Layer3) -> None:
    outside, _ = core.outside()
    subnets = [core.inside(f"10.0.{number}.0/24")[1] for number in range(2)]
    router = dvr_router(core)
    core.connect(router, ADMIN, subnet_id=subnets[0])
    core.lead_out(router, outside, ADMIN)
    assert central_hosts(core, router) == {("", frozenset())}
    l3_agent(core, "compute", mode="dvr")
    assert central_hosts(core, router) == {("", frozenset())}
    l3_agent(core, "one", mode="dvr_snat")
    assert central_hosts(core, router) == {("one", frozenset())}
    core.connect(router, ADMIN, subnet_id=subnets[1])
    assert len(ports_with(core, router, SNAT)) == 2
    assert central_hosts(core, router) == {("one", frozenset())}
    core.update("port", str(ports_with(core, router, SNAT)[0].id), ADMIN, fixed_ips=[])
    assert central_hosts(core, router) == {("one", frozenset())}, "also the one that replaces it"
    (agent,) = core.find("agent", host="one")
    l3_agent(core, "two", mode="dvr_snat")
    core.delete("agent", agent["id"], ADMIN)
    assert central_hosts(core, router) == {("two", frozenset())}


@pytest.mark.spec("ML2-10")
@pytest.mark.parametrize("wanted", [False, True])
def test_they_leave_a_dead_agent_only_if_the_operator_wants(
    file_database: Database, wanted: bool
) -> None:
    core = Layer3(file_database, allow_automatic_l3agent_failover=wanted, failover_grace=0.0)
    outside, _ = core.outside()
    router = dvr_router(core)
    core.connect(router, ADMIN, subnet_id=core.inside("10.0.0.0/24")[1])
    core.lead_out(router, outside, ADMIN)
    l3_agent(core, "one", mode="dvr_snat")
    l3_agent(core, "compute", mode="dvr")
    l3_agent(core, "two", mode="dvr_snat")
    assert central_hosts(core, router) == {("one", frozenset())}
    grow_old(core.context, "one", 600)
    core.core.agent_services.rescheduler.reconcile()
    assert central_hosts(core, router) == {("two" if wanted else "one", frozenset())}
