"""Heartbeats by the database's clock, and one default group for each project."""

from __future__ import annotations

import time
from uuid import uuid4

import pytest

from netfw.drivers.server.query import Query
from netfw.model.resource import Kind
from netfw.model.router import HaRole, Router
from netfw.server.db import Database
from netfw.server.db.agents.router_roles import HostRole
from tests.lab.server.db.processes import at_once, default_group
from tests.lab.server.db.samples import group, store, uid


@pytest.mark.spec("RPC-03")
def test_an_agent_is_as_silent_as_the_clock_of_the_database_says(database: Database) -> None:
    one, two, never = uid(1), uid(2), uid(3)
    began = time.monotonic()
    for agent in (one, one, two):
        database.transaction(lambda tx, agent=agent: tx.heartbeats.record(agent))
    time.sleep(0.05)
    found = database.read(lambda view: view.heartbeats.silent_for([one, never]))
    assert found.keys() == {one}
    assert 0.04 <= found[one] <= time.monotonic() - began + 1
    database.transaction(lambda tx: tx.heartbeats.delete(two))
    assert database.read(lambda view: view.heartbeats.silent_for()).keys() == {one}
    assert database.read(lambda view: view.journal.cursor()).seq == 0


@pytest.mark.spec("L3-42")
def test_the_last_role_of_each_host_is_kept_until_its_router_is_deleted(database: Database) -> None:
    router = Router(id=uid(1), ha=True)
    store(database, router)

    def record(**roles: HaRole) -> None:
        reported = {(router.id, host): HostRole(role) for host, role in roles.items()}
        database.transaction(lambda tx: tx.roles.record(reported))

    for _ in range(2):
        record(one=HaRole.ACTIVE, two=HaRole.STANDBY)
    record(two=HaRole.FAULT, three=HaRole.STANDBY)
    database.transaction(lambda tx: tx.roles.delete(router.id, {"three", "unknown"}))
    roles = {"one": HaRole.ACTIVE, "two": HaRole.FAULT}
    assert database.transaction(lambda tx: tx.roles.of([router.id, uid(2)])) == {
        router.id: roles,
        uid(2): {},
    }
    stored = database.read(lambda view: view.resources.get(Kind.ROUTER, router.id).resource())
    database.transaction(lambda tx: tx.resources.delete(stored))
    assert database.transaction(lambda tx: tx.roles.of([router.id])) == {router.id: {}}


@pytest.mark.spec("API-06")
def test_a_project_has_one_default_group_however_many_ask_for_it(
    url: str, database: Database
) -> None:
    chosen = set(at_once(4, default_group, url))
    assert len(chosen) == 1
    assert database.read(lambda view: view.resources.count(Kind.SECURITY_GROUP, Query())) == 1
    stored = database.read(lambda view: view.resources.find(Kind.SECURITY_GROUP, Query()))
    database.transaction(lambda tx: tx.resources.delete(stored[0].resource()))
    assert database.read(lambda view: view.default_groups.of("p")) is None
    fresh = group(id=uuid4())
    store(database, fresh)
    database.transaction(lambda tx: tx.default_groups.set("p", fresh.id))
    assert database.read(lambda view: view.default_groups.of("p")) == fresh.id
