"""Downgrades of routers keep what belongs to them."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from netfw.drivers.values.subscription import Service
from netfw.model.router import HaRole, Router
from netfw.server.db import Database, migration
from netfw.server.db.agents.excluded_hosts import ExcludedHosts
from netfw.server.db.agents.router_roles import HostRole
from tests.lab.databases import EmptyDatabase


@pytest.mark.spec("ML2-11")
def test_roles_and_excluded_hosts_of_routers_stay_when_ndp_proxies_go(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    database = open_database(empty_database.url)
    migration.upgrade(database)
    router = Router(id=UUID(int=2), project_id="p", ha=True)
    database.transaction(lambda tx: tx.resources.insert(router))
    roles = {(router.id, "a"): HostRole(HaRole.ACTIVE)}
    database.transaction(lambda tx: tx.roles.record(roles))
    database.transaction(lambda tx: ExcludedHosts(tx.connection, Service.L3).add(router.id, "b"))
    migration.downgrade(database, "0023")
    migration.upgrade(database)
    assert migration.differences(database) == ()
    assert database.transaction(lambda tx: tx.roles.read([router.id])) == roles
    excluded = database.transaction(
        lambda tx: ExcludedHosts(tx.connection, Service.L3).of(router.id)
    )
    assert excluded == {"b"}
