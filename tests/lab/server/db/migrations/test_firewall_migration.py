"""A downgrade to a release without router firewalls: they go, and the routers stay."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.server.query import Query
from netfw.model.resource import Kind
from netfw.model.router import Router
from netfw.model.router_firewall import FirewallGroup
from netfw.model.values.ids import FirewallGroupId, PortId, RouterId
from netfw.server.db import Database, migration
from tests.lab.databases import EmptyDatabase

BEFORE_FIREWALLS = "0021"


@pytest.mark.spec("L3-81", "ML2-11")
def test_routers_forget_their_firewall_with_a_downgrade(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    database = open_database(empty_database.url)
    migration.upgrade(database)
    group = FirewallGroup(id=FirewallGroupId(UUID(int=9)), ports=(PortId(UUID(int=2)),))
    router = Router(id=RouterId(UUID(int=1)), project_id="p", firewall_groups=(group,))
    database.transaction(lambda tx: tx.resources.insert(router))
    migration.downgrade(database, BEFORE_FIREWALLS)
    migration.upgrade(database)
    assert migration.differences(database) == ()
    found = database.read(lambda view: view.resources.find(Kind.ROUTER, Query()))
    assert [row.resource() for row in found] == [evolve(router, revision=1, firewall_groups=())]
