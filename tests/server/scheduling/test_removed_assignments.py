"""What administrators remove from an agent stays removed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

import pytest
from sqlalchemy import event, text

from netfw.model.resource import Kind, Ref
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db import Database
from netfw.server.scheduling.assignments import AgentAssignments
from netfw.server.scheduling.dhcp import DhcpScheduler
from tests.server.core.agent_samples import grow_old
from tests.server.core.core_client import ADMIN
from tests.server.scheduling.environment import DHCP, L3, Cloud

pytestmark = pytest.mark.spec("ML2-10", "API-06")

Make = Callable[..., Cloud]


@pytest.fixture
def make(database: Database) -> Make:
    return lambda **options: Cloud(database, **options)


def exclusions(cloud: Cloud) -> list[str]:
    with cloud.database.reading.connect() as connection:
        rows = connection.execute(text("SELECT host FROM excluded_l3_hosts ORDER BY host"))
        return list(rows.scalars())


def remove(cloud: Cloud, router: str, host: str) -> None:
    cloud.calls.plugin.delete(ADMIN, "l3_router", f"{cloud.agent(host, L3)}/{router}")


def add(cloud: Cloud, router: str, host: str) -> None:
    body = {"agent_id": cloud.agent(host, L3), "router_id": router}
    cloud.calls.plugin.create(ADMIN, "l3_router", [body])


def test_an_ha_router_is_not_assigned_again_to_an_agent_that_it_was_removed_from(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    cloud = make(max_l3_agents_per_router=2)
    cloud.agents(L3, "a", "b")
    router = cloud.router(ha=True)
    assert cloud.hosts(router) == ["a", "b"]
    with caplog.at_level(logging.INFO, "netfw.server.scheduling"):
        remove(cloud, router, "a")
    assert "removed from the L3 agent on a on request" in caplog.text
    assert cloud.rescheduler.reconcile() == 0
    cloud.agents(L3, "a", started=1)
    assert cloud.hosts(router) == ["b"], "neither at an interval nor at a restart of the agent"
    cloud.agents(L3, "c")
    assert cloud.hosts(router) == ["b", "c"], "others are as good as before"
    remove(cloud, router, "c")
    add(cloud, router, "a")
    assert cloud.hosts(router) == ["a", "b"]
    assert exclusions(cloud) == ["c"]


def test_a_plain_router_that_was_removed_gets_another_agent_or_none(make: Make) -> None:
    cloud = make()
    cloud.agents(L3, "a")
    router = cloud.router()
    remove(cloud, router, "a")
    assert cloud.rescheduler.reconcile() == 0
    assert cloud.hosts(router) == []
    cloud.agents(L3, "b")
    assert cloud.hosts(router) == ["b"]


def test_a_router_is_not_moved_to_an_agent_that_it_was_removed_from(make: Make) -> None:
    cloud = make(allow_automatic_l3agent_failover=True)
    cloud.agents(L3, "a", "b")
    router = cloud.router()
    remove(cloud, router, "a")
    cloud.rescheduler.reconcile()
    assert cloud.hosts(router) == ["b"]
    grow_old(cloud.context, "b", 80)
    cloud.rescheduler.reconcile()
    assert cloud.hosts(router) == ["b"], "better on a dead agent than where it must not be"


def test_what_is_removed_from_an_agent_that_is_off_returns_when_it_is_on(make: Make) -> None:
    cloud = make(max_l3_agents_per_router=2)
    cloud.agents(L3, "a", "b")
    router, agent = cloud.router(ha=True), cloud.agent("a", L3)
    cloud.calls.plugin.update(ADMIN, "agent", agent, {"admin_state_up": False})
    remove(cloud, router, "a")
    cloud.rescheduler.reconcile()
    assert cloud.hosts(router) == ["b"]
    cloud.calls.plugin.update(ADMIN, "agent", agent, {"admin_state_up": True})
    assert cloud.hosts(router) == ["a", "b"]


def test_a_network_is_not_assigned_again_to_an_agent_that_it_was_removed_from(make: Make) -> None:
    cloud = make()
    cloud.agents(DHCP, "a")
    network, agent = cloud.network(), cloud.agent("a", DHCP)
    cloud.calls.plugin.delete(ADMIN, "dhcp_network", f"{agent}/{network}")
    cloud.rescheduler.reconcile()
    assert cloud.hosts(network) == []
    cloud.agents(DHCP, "b")
    assert cloud.hosts(network) == ["b"]


def test_networks_without_a_possible_agent_are_not_scheduled(make: Make) -> None:
    # One network was removed from all agents, and all agents serve the other.
    cloud = make(dhcp_agents_per_network=2)
    scheduler = DhcpScheduler(cloud.context)
    cloud.agents(DHCP, "a")
    served, removed = cloud.network(), cloud.network()
    cloud.calls.plugin.delete(ADMIN, "dhcp_network", f"{cloud.agent('a', DHCP)}/{removed}")
    assert cloud.hosts(served) == ["a"]
    assert cloud.context.read(scheduler.unserved) == ()
    grow_old(cloud.context, "a", 80)
    assert cloud.context.read(scheduler.unserved) == ()
    cloud.rescheduler.start()  # so that the next agent is not used at once
    cloud.rescheduler.close()
    cloud.agents(DHCP, "b")
    assert set(cloud.context.read(scheduler.unserved)) == {UUID(served), UUID(removed)}
    cloud.rescheduler.reconcile()
    assert cloud.hosts(served) == cloud.hosts(removed) == ["b"]
    assert cloud.context.read(scheduler.unserved) == ()


def test_only_networks_with_too_few_agents_are_read(make: Make) -> None:
    cloud = make(dhcp_agents_per_network=2)
    cloud.agents(DHCP, "a", "b")
    lacking, *_ = [cloud.network() for _ in range(3)]
    cloud.calls.plugin.delete(ADMIN, "dhcp_network", f"{cloud.agent('b', DHCP)}/{lacking}")
    cloud.rescheduler.start()
    cloud.rescheduler.close()
    cloud.agents(DHCP, "c")
    parameters = []
    event.listen(
        cloud.database.reading,
        "before_cursor_execute",
        lambda _connection, _cursor, statement, values, *_: parameters.append((statement, values)),
    )
    unserved = cloud.context.read(DhcpScheduler(cloud.context).unserved)
    assert unserved == (UUID(lacking),)
    tables = (" assignments.host", "excluded_dhcp_hosts.host")
    read = [values for statement, values in parameters if any(name in statement for name in tables)]
    assert len(read) == len(tables)
    assert all(lacking in values for values in read)


@pytest.mark.parametrize("others", [True, False])
@pytest.mark.parametrize("kind", [DHCP, L3])
def test_nothing_stays_with_a_host_whose_agent_was_deleted_meanwhile(
    make: Make, kind: str, others: bool
) -> None:
    cloud = make(max_l3_agents_per_router=1)
    cloud.agents(kind, *(["a"] if others else []))
    id = cloud.network() if kind == DHCP else cloud.router(ha=True)
    target = Ref(Kind.NETWORK if kind == DHCP else Kind.ROUTER, UUID(id))
    serving = AgentAssignments(kind, cloud.context.settings)

    def move(unit: UnitOfWork) -> None:
        serving.unassign(unit, target)
        serving.assign(unit, target, "gone")

    cloud.context.run(ADMIN, move)
    cloud.rescheduler.reconcile()
    assert cloud.hosts(id) == (["a"] if others else [])
    assert cloud.rescheduler.reconcile() == 0


@pytest.mark.parametrize("deleted", ["agent", "router"])
def test_exclusions_go_with_the_agent_and_with_the_router(make: Make, deleted: str) -> None:
    cloud = make()
    cloud.agents(L3, "a")
    router = cloud.router()
    remove(cloud, router, "a")
    assert exclusions(cloud) == ["a"]
    if deleted == "agent":
        cloud.calls.delete("agent", cloud.agent("a", L3), ADMIN)
        cloud.agents(L3, "a")
        assert cloud.hosts(router) == ["a"], "a new agent has no past"
    else:
        cloud.calls.delete("router", router, ADMIN)
    assert exclusions(cloud) == []
