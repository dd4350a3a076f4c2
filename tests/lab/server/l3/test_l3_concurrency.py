"""Security groups, routers and floating IPs, asked for by several processes at once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from netfw.model.resource import Kind, Ref
from netfw.model.router import HaRole
from netfw.model.values.device_owner import is_router_attachment
from netfw.server.agents.agents import L3_AGENT
from netfw.server.db import Database
from netfw.server.scheduling.assignments import AgentAssignments
from tests.lab.server.l3.environment import ADMIN, ANNA, Layer3
from tests.lab.server.l3.processes import (
    WORKERS,
    at_once,
    forward,
    want_association,
    want_both_uses,
    want_default_groups,
    want_deletion_and_forwarding,
    want_forwardings,
    want_interface,
    want_opposites,
    want_roles,
    want_rules,
)


@pytest.fixture
def core(database: Database) -> Layer3:
    return Layer3(database)


@pytest.mark.spec("API-06")
def test_each_project_gets_one_default_group(core: Layer3, url: str) -> None:
    projects = [f"p{n}" for n in range(6)]
    first, *others = at_once(want_default_groups, url, projects)
    assert all(other == first for other in others)
    groups = [each for each in core.find("security_group") if each["project_id"] != "root"]
    assert sorted(each["project_id"] for each in groups) == projects
    assert all(len(each["security_group_rules"]) == 4 for each in groups)
    for project in projects:
        usage = core.context.read(lambda view, project=project: view.quotas.of_project(project))
        assert (usage["security_group"].used, usage["security_group_rule"].used) == (1, 4)


@pytest.mark.spec("API-06")
def test_the_same_rule_is_made_once(core: Layer3, url: str) -> None:
    group = core.create("security_group", name="web")["id"]
    ports = list(range(2000, 2012))
    outcomes = at_once(want_rules, url, group, ports)
    for port, each in zip(ports, zip(*outcomes, strict=True), strict=True):
        assert sorted(each) == ["", *["SecurityGroupRuleExists"] * (WORKERS - 1)], port
    shown = core.show("security_group", group)
    assert len(shown["security_group_rules"]) == 2 + len(ports)
    assert shown["revision_number"] == 1 + len(ports)


@pytest.mark.spec("API-06")
def test_a_router_gets_one_interface_on_a_subnet(core: Layer3, url: str) -> None:
    _, subnet = core.inside()
    router = core.router()
    outcomes = at_once(want_interface, url, router, subnet)
    assert sorted(outcomes) == ["", *["BadRequest"] * (WORKERS - 1)]
    assert len(core.ports_of(router)) == 1


@pytest.mark.spec("API-06")
def test_an_address_gets_one_floating_ip(core: Layer3, url: str) -> None:
    outside, _ = core.outside()
    network, subnet = core.inside()
    router = core.router(external_gateway_info={"network_id": outside})
    core.connect(router, subnet_id=subnet)
    port = core.port(network)["id"]
    floating = [
        core.create("floatingip", floating_network_id=outside)["id"] for _ in range(WORKERS)
    ]
    outcomes = at_once(want_association, url, floating, port)
    assert sorted(outcomes) == ["", *["FloatingIPPortAlreadyAssociated"] * (WORKERS - 1)]
    assert len(core.find("floatingip", ANNA, port_id=port)) == 1


@pytest.mark.spec("API-06")
def test_no_floating_ip_is_left_without_the_router_that_it_needs(core: Layer3, url: str) -> None:
    outside, _ = core.outside()

    def case(number: int) -> dict[str, str]:
        network, subnet = core.inside(f"10.0.{number}.0/24")
        router = core.router(external_gateway_info={"network_id": outside})
        core.connect(router, subnet_id=subnet)
        port = core.port(network)["id"]
        floating = core.create("floatingip", floating_network_id=outside)["id"]
        return {"router": router, "subnet": subnet, "port": port, "floating": floating}

    cases = [case(number) for number in range(8)]
    outcomes = at_once(want_opposites, url, cases)
    for each, ends in zip(cases, zip(*outcomes, strict=True), strict=True):
        leads = core.show("floatingip", each["floating"])["router_id"] == each["router"]
        connected = len(core.ports_of(each["router"])) == 2
        assert leads == connected, ends


@pytest.mark.spec("API-18", "L3-42")
def test_all_ports_of_a_router_are_bound_to_one_of_the_hosts_that_become_active_at_once(
    core: Layer3, url: str
) -> None:
    outside, _ = core.outside()
    hosts = {f"host{number}" for number in range(WORKERS)}
    assignments = AgentAssignments(L3_AGENT, core.context.settings)

    def make_router(number: int) -> str:
        router = core.router(ADMIN, ha=True, external_gateway_info={"network_id": outside})
        core.connect(router, ADMIN, subnet_id=core.inside(f"10.0.{number}.0/24")[1])
        target = Ref(Kind.ROUTER, UUID(router))
        for host in hosts:
            core.context.run(ADMIN, assignments.assign, target, host)
        return router

    routers = [make_router(number) for number in range(3)]
    assert {end for ends in at_once(want_roles, url, routers) for end in ends} == {""}
    ids = [UUID(router) for router in routers]
    roles = core.context.database.transaction(lambda tx: tx.roles.of(ids))
    assert roles == {id: dict.fromkeys(hosts, HaRole.ACTIVE) for id in ids}
    for router in routers:
        attached = [port for port in core.ports_of(router) if is_attachment(port)]
        (bound,) = {port["binding:host_id"] for port in attached}
        assert bound in hosts


def is_attachment(port: dict[str, Any]) -> bool:
    return is_router_attachment(port["device_owner"])


def _forwarding_cases(core: Layer3, count: int) -> list[dict[str, Any]]:
    outside, _ = core.outside()
    network, subnet = core.inside()
    router = core.router(external_gateway_info={"network_id": outside})
    core.connect(router, subnet_id=subnet)
    return [
        {
            "floating": core.create("floatingip", floating_network_id=outside)["id"],
            "port": core.port(network)["id"],
            "other": core.port(network)["id"],
            "router": router,
        }
        for _ in range(count)
    ]


@pytest.mark.spec("API-07")
def test_an_external_port_is_forwarded_once(core: Layer3, url: str) -> None:
    cases = _forwarding_cases(core, 6)
    outcomes = at_once(want_forwardings, url, cases)
    for case, each in zip(cases, zip(*outcomes, strict=True), strict=True):
        assert sorted(each) == ["", *["BadRequest"] * (WORKERS - 1)]
        shown = core.show("floatingip", case["floating"])
        assert (len(shown["port_forwardings"]), shown["router_id"]) == (1, case["router"])


@pytest.mark.spec("API-07")
def test_a_floating_ip_stands_for_a_port_or_forwards_ports(core: Layer3, url: str) -> None:
    cases = _forwarding_cases(core, 6)
    at_once(want_both_uses, url, cases)
    for case in cases:
        shown = core.show("floatingip", case["floating"])
        assert bool(shown["port_id"]) != bool(shown["port_forwardings"])
        assert shown["router_id"] == case["router"]


@pytest.mark.spec("API-07")
def test_a_forwarding_floating_ip_keeps_its_router_while_a_port_goes(
    core: Layer3, url: str
) -> None:
    cases = _forwarding_cases(core, 6)
    for case in cases:
        forward(core, case["floating"], case["port"], 80)
    outcomes = at_once(want_deletion_and_forwarding, url, cases)
    assert all(each == "" for some in outcomes for each in some)
    for case in cases:
        shown = core.show("floatingip", case["floating"])
        assert (len(shown["port_forwardings"]), shown["router_id"]) == (WORKERS - 1, case["router"])
