"""A downgrade to a release without trunks: they go, and their ports stay."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.server.query import Query
from netfw.model.network import Network
from netfw.model.port import Port
from netfw.model.resource import Kind
from netfw.model.trunk import SubPort, Trunk, TrunkMembership
from netfw.model.values.ids import NetworkId, PortId, TrunkId
from netfw.server.db import Database, migration
from tests.lab.databases import EmptyDatabase

BEFORE_TRUNKS = "0015"


@pytest.mark.spec("API-07", "ML2-11")
def test_ports_forget_their_trunk_with_a_downgrade(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    database = open_database(empty_database.url)
    migration.upgrade(database)
    network = Network(id=NetworkId(UUID(int=1)), project_id="p")
    trunk = TrunkId(UUID(int=9))
    parent = Port(
        id=PortId(UUID(int=2)),
        network_id=network.id,
        mac="fa:16:3e:00:00:02",
        trunk=TrunkMembership(trunk_id=trunk),
    )
    child = evolve(
        parent,
        id=PortId(UUID(int=3)),
        mac="fa:16:3e:00:00:03",
        trunk=TrunkMembership(trunk_id=trunk, parent_id=parent.id, segmentation_id=5),
    )
    subs = (SubPort(port_id=child.id, segmentation_id=5),)
    whole = Trunk(id=trunk, project_id="p", port_id=parent.id, sub_ports=subs)
    for resource in (network, parent, child, whole):
        database.transaction(lambda tx, resource=resource: tx.resources.insert(resource))
    migration.downgrade(database, BEFORE_TRUNKS)
    migration.upgrade(database)
    assert migration.differences(database) == ()
    found = database.read(lambda view: view.resources.find(Kind.PORT, Query()))
    assert [row.resource() for row in found] == [
        evolve(port, revision=1, trunk=None) for port in (parent, child)
    ]
    assert database.read(lambda view: view.resources.find(Kind.TRUNK, Query())) == ()
