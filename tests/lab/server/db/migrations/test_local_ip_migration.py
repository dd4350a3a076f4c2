"""A downgrade to a release without local IPs: ports forget those that lead to them."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.server.query import Query
from netfw.model.local_ip import LocalIpAssociation
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Kind
from netfw.model.values.ids import LocalIpId, NetworkId, PortId
from netfw.server.db import Database, migration
from tests.lab.databases import EmptyDatabase

BEFORE_LOCAL_IPS = "0021"


@pytest.mark.spec("API-07", "ML2-11")
def test_ports_forget_their_local_ips_with_a_downgrade(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    database = open_database(empty_database.url)
    migration.upgrade(database)
    network = Network(id=NetworkId(UUID(int=1)), project_id="p")
    local_ip = LocalIpAssociation(
        local_ip_id=LocalIpId(UUID(int=9)),
        address="10.0.0.50",
        mac="fa:16:3e:00:00:09",
        fixed_ip="10.0.0.2",
    )
    port = Port(
        id=PortId(UUID(int=2)),
        network_id=network.id,
        mac="fa:16:3e:00:00:02",
        local_ips=(local_ip,),
    )
    for resource in (network, port):
        database.transaction(lambda tx, resource=resource: tx.resources.insert(resource))
    named = Query(filters={"local_ips": (str(UUID(int=9)),)})
    found = database.read(lambda view: view.resources.find(Kind.PORT, named))
    assert [row.resource() for row in found] == [evolve(port, revision=1)]
    migration.downgrade(database, BEFORE_LOCAL_IPS)
    migration.upgrade(database)
    assert migration.differences(database) == ()
    found = database.read(lambda view: view.resources.find(Kind.PORT, Query()))
    assert [row.resource() for row in found] == [evolve(port, revision=1, local_ips=())]
