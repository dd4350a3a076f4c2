"""A downgrade to a release without QoS policies: they go, and what uses them stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select

from netfw.drivers.server.query import Query
from netfw.model.binding import Binding
from netfw.model.floating_ip import FloatingIp
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.qos import QosPolicy
from netfw.model.resource import Kind
from netfw.model.router import ExternalGateway, Router
from netfw.server.db import Database, migration
from netfw.server.db.schema.tables import SUBSCRIPTIONS
from tests.lab.databases import EmptyDatabase

BEFORE_POLICIES = "0015"
POLICY = UUID(int=9)


@pytest.mark.spec("API-07", "ML2-11")
def test_nothing_names_a_qos_policy_after_a_downgrade(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    database = open_database(empty_database.url)
    migration.upgrade(database)
    network, uses = UUID(int=1), {"project_id": "p", "qos_policy_id": POLICY}
    gateway = ExternalGateway(network_id=network, qos_policy_id=POLICY)
    for resource in (
        QosPolicy(id=POLICY, project_id="p"),
        Network(id=network, **uses),
        Port(
            id=UUID(int=2),
            network_id=network,
            mac="fa:16:3e:00:00:02",
            binding=Binding(host="h"),
            **uses,
        ),
        Router(id=UUID(int=3), project_id="p", gateway=gateway),
        FloatingIp(id=UUID(int=4), network_id=network, address="203.0.113.4", **uses),
    ):
        database.transaction(lambda tx, resource=resource: tx.resources.insert(resource))
    migration.downgrade(database, BEFORE_POLICIES)
    migration.upgrade(database)

    def stored(kind: Kind, **filters: Any) -> list[dict[str, Any]]:
        query = Query(filters={name: (value,) for name, value in filters.items()})
        found = database.read(lambda view: view.resources.find(kind, query))
        return [dict(row.body) for row in found]

    for kind in (Kind.NETWORK, Kind.PORT, Kind.FLOATING_IP):
        assert [body["qos_policy_id"] for body in stored(kind)] == [None]
        assert stored(kind, qos_policy_id=str(POLICY)) == []
    (router,) = stored(Kind.ROUTER)
    assert router["external_gateway_info"]["qos_policy_id"] is None
    with database.reading.connect() as connection:
        topics = connection.execute(select(SUBSCRIPTIONS.c.topic)).scalars().all()
    assert topics
    assert not [topic for topic in topics if str(POLICY) in topic]
