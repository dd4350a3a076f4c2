"""Highly available routers: what makes one, where its ports are, conversion and deletion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve
from sqlalchemy import event

from netfw.drivers.server.change import Change
from netfw.errors import Conflict, InvalidInput
from netfw.model.port import Port
from netfw.model.resource import Kind, Ref
from netfw.model.router import Router
from netfw.server.agents.agents import L3_AGENT
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db import Database, migration
from netfw.server.scheduling.assignments import AgentAssignments
from tests.lab.server.l3.environment import ADMIN, ANNA, Layer3
from tests.lab.server.l3.ha_samples import (
    activate,
    bindings,
    ha_networks,
    ha_ports,
    ha_router,
    l3_agent,
    record,
    router_of,
    vrids,
)

INTERFACE = "network:ha_router_replicated_interface"
GATEWAY = "network:router_gateway"


@pytest.fixture
def core(file_database: Database) -> Layer3:
    core = Layer3(file_database)
    for host in ("one", "two"):
        l3_agent(core, host)
    return core


def connected(core: Layer3, **body: Any) -> tuple[str, str]:
    """Return a highly available router with an interface and a gateway, and the subnet inside."""
    outside, _ = core.outside()
    _, subnet = core.inside()
    router = ha_router(core, ANNA, **body)
    core.connect(router, subnet_id=subnet)
    core.lead_out(router, outside)
    return router, subnet


@pytest.mark.spec("API-18")
@pytest.mark.parametrize("default", [False, True])
def test_option_makes_routers_highly_available_unless_the_request_says(
    file_database: Database, default: bool
) -> None:
    core = Layer3(file_database, l3_ha=default)
    plain, wanted, unsaid = (
        core.router(ADMIN, project_id="anna", ha=False),
        core.router(ADMIN, project_id="anna", ha=True),
        core.router(),
    )
    shown = [core.show("router", each)["ha"] for each in (plain, wanted, unsaid)]
    assert shown == [False, True, default]
    assert vrids(core).keys() == ({wanted, unsaid} if default else {wanted})
    assert [router_of(core, each).vrid is not None for each in (plain, wanted, unsaid)] == shown


@pytest.mark.spec("API-17")
def test_router_carries_the_id_that_it_was_allocated(core: Layer3) -> None:
    routers = [ha_router(core) for _ in range(3)]
    assert {each: router_of(core, each).vrid for each in routers} == {
        router: vrid for router, (_, vrid) in vrids(core).items()
    }
    assert len(set(vrids(core).values())) == 3
    assert "vrid" not in core.show("router", routers[0])
    assert core.show("router", routers[0])["revision_number"] == 1


@pytest.mark.spec("API-17")
def test_ports_are_on_all_hosts_of_the_router_and_follow_its_agents(core: Layer3) -> None:
    router, _ = connected(core)
    both = frozenset({"one", "two"})
    assert bindings(core, router) == {INTERFACE: ("", both), GATEWAY: ("", both)}
    l3_agent(core, "three")
    every = both | {"three"}
    assert bindings(core, router) == {INTERFACE: ("", every), GATEWAY: ("", every)}
    assert all("binding:hosts" not in port for port in core.ports_of(router))
    _, other = core.inside("10.0.1.0/24")
    core.connect(router, subnet_id=other)
    assert bindings(core, router) == {INTERFACE: ("", every), GATEWAY: ("", every)}


@pytest.mark.spec("API-17")
@pytest.mark.parametrize("way", ["unassigned", "deleted"])
def test_ports_are_bound_to_no_host_when_the_active_one_leaves(core: Layer3, way: str) -> None:
    router, _ = connected(core)
    activate(core, router, "one")
    both = frozenset({"one", "two"})
    assert bindings(core, router) == {INTERFACE: ("one", both), GATEWAY: ("one", both)}
    _, other = core.inside("10.0.1.0/24")
    core.connect(router, subnet_id=other)
    assert bindings(core, router) == {INTERFACE: ("one", both), GATEWAY: ("one", both)}
    l3_agent(core, "three")
    (agent,) = core.find("agent", host="three")
    core.delete("l3_router", f"{agent['id']}/{router}", ADMIN)
    assert bindings(core, router)[INTERFACE] == ("one", both), "a standby left"
    (agent,) = core.find("agent", host="one")
    if way == "deleted":
        core.delete("agent", agent["id"], ADMIN)
    else:
        core.delete("l3_router", f"{agent['id']}/{router}", ADMIN)
    hosts = {host for _, several in bindings(core, router).values() for host in several}
    assert "one" not in hosts
    assert "two" in hosts
    assert [host for host, _ in bindings(core, router).values()] == ["", ""]
    l3_agent(core, "one")
    if way == "unassigned":
        core.create("l3_router", ADMIN, agent_id=agent["id"], router_id=router)
    agents = core.find("l3_agent", router_id=router)
    states = {agent["host"]: agent["ha_state"] for agent in agents}
    assert states["one"] == "unknown", "its former role is not that of the new assignment"


@pytest.mark.spec("API-17")
def test_plain_router_becomes_highly_available_and_back_while_it_is_down(core: Layer3) -> None:
    outside, _ = core.outside()
    _, subnet = core.inside()
    router = core.router()
    core.connect(router, subnet_id=subnet)
    core.lead_out(router, outside)
    assert bindings(core, router) == {
        "network:router_interface": ("one", frozenset()),
        GATEWAY: ("one", frozenset()),
    }
    before = record(core)
    with pytest.raises(InvalidInput, match="admin_state_up"):
        core.update("router", router, ADMIN, ha=True)
    assert record(core) == before

    revision = core.update("router", router, ADMIN, admin_state_up=False)["revision_number"]
    made = core.update("router", router, ADMIN, ha=True)
    assert made["revision_number"] > revision
    both = frozenset({"one", "two"})
    assert bindings(core, router) == {INTERFACE: ("", both), GATEWAY: ("", both)}
    assert [port["binding:host_id"] for port in ha_ports(core, router)] == ["one", "two"]
    assert len(ha_networks(core)) == 1
    assert router_of(core, router).vrid == vrids(core)[router][1]

    core.update("router", router, ADMIN, admin_state_up=True)
    activate(core, router, "two")
    with pytest.raises(InvalidInput, match="admin_state_up"):
        core.update("router", router, ADMIN, ha=False)
    core.update("router", router, ADMIN, admin_state_up=False, ha=False)
    assert bindings(core, router) == {
        "network:router_interface": ("two", frozenset()),
        GATEWAY: ("two", frozenset()),
    }, "the active host keeps it"
    assert (ha_ports(core, router), ha_networks(core), vrids(core)) == ([], [], {})
    assert router_of(core, router).vrid is None


@pytest.mark.spec("API-17")
def test_router_without_another_agent_becomes_highly_available(file_database: Database) -> None:
    core = Layer3(file_database)
    l3_agent(core, "one")
    _, subnet = core.inside()
    router = core.router(admin_state_up=False)
    core.connect(router, subnet_id=subnet)
    core.update("router", router, ADMIN, ha=True)
    assert bindings(core, router) == {INTERFACE: ("", frozenset({"one"}))}
    assert len(ha_ports(core, router)) == 1
    core.update("router", router, ADMIN, ha=False)
    assert bindings(core, router) == {"network:router_interface": ("one", frozenset())}


@pytest.mark.spec("API-17")
def test_router_that_no_host_has_is_converted(core: Layer3) -> None:
    router = core.router(admin_state_up=False)
    core.update("router", router, ADMIN, ha=True)
    assert (len(ha_networks(core)), ha_ports(core, router)) == (1, [])
    core.update("router", router, ADMIN, ha=False)
    assert (ha_networks(core), vrids(core)) == ([], {})


@pytest.mark.spec("API-17")
def test_deleted_router_takes_everything_along(core: Layer3) -> None:
    outside, _ = core.outside()
    _, subnet = core.inside()
    before = record(core)
    router = ha_router(core)
    core.connect(router, subnet_id=subnet)
    core.lead_out(router, outside)
    with pytest.raises(Conflict, match="interfaces"):
        core.delete("router", router)
    assert len(ha_ports(core, router)) == 2
    core.disconnect(router, subnet_id=subnet)
    core.delete("router", router)
    after = record(core)
    for table in ("quotas",):  # counters of projects stay, at zero
        before.pop(table), after.pop(table)
    assert after == before


UNSEEN = (("create", Port), ("assign", Router))
"""What these do changes no such resource."""


@pytest.mark.spec("API-17")
@pytest.mark.parametrize("kind", [Router, Port])
@pytest.mark.parametrize("act", ["create", "connect", "assign", "to plain", "to ha", "delete"])
def test_fault_at_the_end_of_a_transaction_leaves_nothing_half_done(
    core: Layer3, act: str, kind: type
) -> None:
    _, subnet = core.inside()
    router, plain = ha_router(core), core.router()
    core.connect(plain, subnet_id=subnet)
    for each in (router, plain):
        core.update("router", each, ADMIN, admin_state_up=False)
    _, other = core.inside("10.0.1.0/24")
    serving = AgentAssignments(L3_AGENT, core.context.settings)
    target = Ref(Kind.ROUTER, UUID(router))
    if act != "connect":
        core.context.run(ADMIN, lambda unit: serving.assign(unit, target, "one"))
    seen: list[Change] = []

    def fail(unit: UnitOfWork, change: Change) -> None:
        if isinstance(change.resource, kind):
            seen.append(change)
            raise Conflict("injected")

    before = record(core)
    core.context.precommit_hooks.append(fail)
    acts: dict[str, Callable[[], Any]] = {
        "create": lambda: core.router(
            ADMIN, project_id="bert", ha=True, external_gateway_info=None
        ),
        "connect": lambda: core.connect(router, subnet_id=other),
        "assign": lambda: core.context.run(ADMIN, lambda unit: serving.assign(unit, target, "two")),
        "to plain": lambda: core.update("router", router, ADMIN, ha=False),
        "to ha": lambda: core.update("router", plain, ADMIN, ha=True),
        "delete": lambda: core.delete("router", router),
    }
    if (act, kind) in UNSEEN:
        acts[act]()
        assert not seen
        return
    with pytest.raises(Conflict, match="injected"):
        acts[act]()
    assert record(core) == before


@pytest.mark.spec("API-17")
def test_router_of_an_earlier_release_gets_its_id_and_ports(core: Layer3) -> None:
    _, subnet = core.inside()
    router = core.router()
    core.connect(router, subnet_id=subnet)
    before = router_of(core, router)
    core.context.database.transaction(
        lambda tx: tx.resources.update(before, evolve(before, ha=True))
    )
    core = Layer3(core.context.database)
    core.core.agent_services.rescheduler.reconcile()
    assert router_of(core, router).vrid == vrids(core)[router][1]
    assert [port["binding:host_id"] for port in ha_ports(core, router)] == ["one", "two"]
    revision = router_of(core, router).revision
    core.core.agent_services.rescheduler.reconcile()
    assert router_of(core, router).revision == revision


@pytest.mark.spec("API-17")
def test_server_looks_for_routers_of_earlier_releases_until_none_is_left(core: Layer3) -> None:
    core = Layer3(core.context.database)
    looks: list[str] = []

    def note(_: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if "vrids" in statement:
            looks.append(statement)

    engine = core.context.database.reading
    event.listen(engine, "before_cursor_execute", note)
    try:
        for _ in range(3):
            core.core.agent_services.rescheduler.reconcile()
    finally:
        event.remove(engine, "before_cursor_execute", note)
    assert len(looks) == 1


@pytest.mark.spec("API-17", "ML2-11")
def test_downgrade_is_refused_while_routers_are_highly_available(database: Database) -> None:
    core = Layer3(database)
    for host in ("one", "two"):
        l3_agent(core, host)
    router, _ = connected(core)
    before = record(core)
    for to in ("0008", "0009"):
        with pytest.raises(Conflict, match=f"below version 0010: .*{router}.*--no-ha"):
            migration.downgrade(database, to)
    assert migration.current(database) == migration.newest()
    assert record(core) == before
    core.update("router", router, ADMIN, admin_state_up=False, ha=False)
    try:
        migration.downgrade(database, "0009")
    finally:
        migration.upgrade(database)
    core = Layer3(database)
    assert (ha_networks(core), ha_ports(core, router)) == ([], [])
    core.update("router", router, ADMIN, ha=True)
    assert [port["binding:host_id"] for port in ha_ports(core, router)] == ["one", "two"]
