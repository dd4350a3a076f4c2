"""Resources are stored whole, change by revision, and keep their constraints."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import ip_network

import pytest
from attrs import evolve

from netfw.drivers.server.query import Query
from netfw.errors import Conflict, NotFound
from netfw.model import (
    AddressGroup,
    AddressGroupId,
    Agent,
    AgentId,
    Direction,
    ExternalGateway,
    FloatingIp,
    FloatingIpId,
    JsonDocument,
    NetworkType,
    Provider,
    Router,
    RouterId,
    SecurityGroupRule,
    SecurityGroupRuleId,
    Segment,
    SegmentId,
)
from netfw.model.resource import Kind, Resource, ref
from netfw.server.db import Database, Transaction
from tests.lab.server.db.samples import group, mac, network, port, store, subnet, uid

WHEN = datetime(2026, 11, 15, 6, 0, tzinfo=UTC)
VLAN = Provider(network_type=NetworkType.VLAN, physical_network="physnet1", segmentation_id=7)

ALL: tuple[Resource, ...] = (
    network(1, tags={"blue", "größer 🌍"}, created_at=WHEN, segments=(VLAN,), shared=True),
    Segment(id=SegmentId(uid(11)), network_id=network().id, provider=VLAN),
    subnet(2),
    group(3, description="'; DROP TABLE ports; --"),
    SecurityGroupRule(
        id=SecurityGroupRuleId(uid(12)),
        security_group_id=group().id,
        direction=Direction.INGRESS,
        remote_prefix=ip_network("10.0.0.0/8"),
        protocol=6,
        port_min=80,
        port_max=90,
    ),
    AddressGroup(id=AddressGroupId(uid(13)), addresses=frozenset({ip_network("10.0.0.0/8")})),
    port(5, "10.0.0.9", security_groups={group().id}, name="trailing space "),
    Router(id=RouterId(uid(14)), gateway=ExternalGateway(network_id=network().id)),
    FloatingIp(id=FloatingIpId(uid(15)), network_id=network().id, address="192.0.2.1"),
    Agent(
        id=AgentId(uid(16)),
        agent_type="Open vSwitch agent",
        binary="netfw-ovs-agent",
        host="host1",
        configurations=JsonDocument({"tunneling_ip": "192.0.2.9"}),
    ),
)


@pytest.mark.spec("API-06", "ML2-11")
def test_every_kind_comes_back_as_it_was_stored(database: Database) -> None:
    store(database, *ALL)
    expected = {ref(each): evolve(each, revision=1) for each in ALL}
    expected[ref(network())] = evolve(expected[ref(network())], subnet_ids=frozenset({subnet().id}))
    rows = database.read(lambda view: view.resources.present(map(ref, ALL)))
    assert {row.ref: row.resource() for row in rows} == expected


def test_extra_attributes_are_shown_and_kept_until_they_are_said_anew(database: Database) -> None:
    first = network()
    database.transaction(lambda tx: tx.resources.insert(first, extra={"vendor:color": "blue"}))

    def rename(tx: Transaction) -> None:
        now = tx.resources.get(Kind.NETWORK, first.id, lock=True).resource()
        tx.resources.update(now, evolve(now, name="new"))

    database.transaction(rename)
    row = database.read(lambda view: view.resources.get(Kind.NETWORK, first.id))
    assert (row.shown["name"], row.shown["vendor:color"]) == ("new", "blue")
    assert row.shown["revision_number"] == 2


def test_an_update_moves_what_other_tables_know(database: Database) -> None:
    old = port(5, "10.0.0.9", "10.0.0.10", security_groups={group(3).id}, tags={"a", "b"})
    store(database, network(), subnet(), group(3), group(4), old)

    def move(tx: Transaction) -> None:
        now = tx.resources.get(Kind.PORT, old.id, lock=True).resource()
        new = port(5, "10.0.0.10", "10.0.0.11", security_groups={group(4).id}, tags={"b", "c"})
        tx.resources.update(now, new)

    database.transaction(move)

    def found(**filters: str) -> int:
        query = Query(filters={name: (value,) for name, value in filters.items()})
        return database.read(lambda view: view.resources.count(Kind.PORT, query))

    assert [found(fixed_ips=f"ip_address=10.0.0.{n}") for n in (9, 10, 11)] == [0, 1, 1]
    assert [found(security_groups=str(uid(n))) for n in (3, 4)] == [0, 1]
    assert [found(tags=tag) for tag in "abc"] == [0, 1, 1]


CONTRADICTIONS: tuple[Resource, ...] = (
    port(6, "10.0.0.10", mac=mac(5)),
    port(6, "10.0.0.9"),
    port(5, "10.0.0.10"),
    port(6, network_id=uid(99)),
    port(6, security_groups={uid(99)}),
)


@pytest.mark.spec("ML2-17")
def test_what_contradicts_a_constraint_is_a_conflict_and_leaves_nothing(
    database: Database,
) -> None:
    store(database, network(), subnet(), group(), port(5, "10.0.0.9"))
    before = database.read(lambda view: view.journal.cursor())
    for second in CONTRADICTIONS:
        with pytest.raises(Conflict):
            database.transaction(lambda tx, second=second: tx.resources.insert(second))
    rows = database.read(lambda view: view.resources.find(Kind.PORT, Query()))
    assert [row.ref for row in rows] == [ref(port(5))]
    assert database.read(lambda view: view.journal.cursor()) == before


def test_what_is_in_use_cannot_be_deleted(database: Database) -> None:
    store(database, network(), subnet(), group(), port(5, "10.0.0.9", security_groups={uid(3)}))

    def remove(tx: Transaction, used: Resource) -> None:
        tx.resources.delete(tx.resources.get(ref(used).kind, used.id).resource())

    for used in (network(), subnet(), group()):
        with pytest.raises(Conflict, match="in use"):
            database.transaction(lambda tx, used=used: remove(tx, used))


def test_what_is_deleted_is_gone_with_all_its_rows(database: Database) -> None:
    store(database, network(), subnet(), group())
    one = port(5, "10.0.0.9", security_groups={uid(3)}, tags={"a"})
    for _ in range(2):
        store(database, one)
        kept = evolve(one, revision=1)
        database.transaction(lambda tx, kept=kept: tx.resources.delete(kept))
    with pytest.raises(NotFound, match=str(one.id)):
        database.read(lambda view: view.resources.get(Kind.PORT, one.id))


@pytest.mark.spec("API-08")
def test_update_of_a_concurrently_changed_row_is_retried(
    url: str, database: Database, open_database: Callable[..., Database]
) -> None:
    store(database, network())
    stale = database.read(lambda view: view.resources.get(Kind.NETWORK, uid(1))).resource()
    seen = []

    def rename(tx: Transaction) -> None:
        now = tx.resources.get(Kind.NETWORK, uid(1)).resource() if seen else stale
        seen.append(now.revision)
        tx.resources.update(now, evolve(now, description="mine"))

    def other(tx: Transaction) -> None:
        now = tx.resources.get(Kind.NETWORK, uid(1), lock=True).resource()
        tx.resources.update(now, evolve(now, name="theirs"))

    open_database(url).transaction(other)
    database.transaction(rename)
    row = database.read(lambda view: view.resources.get(Kind.NETWORK, uid(1)))
    assert (row.body["name"], row.body["description"]) == ("theirs", "mine")
    assert seen == [1, 2]


def test_update_of_an_old_revision_is_a_conflict(
    url: str, open_database: Callable[..., Database]
) -> None:
    database = open_database(url, attempts=3)
    store(database, network())
    stale = evolve(network(), revision=7)
    with pytest.raises(Conflict, match="after 3 conflicts"):
        database.transaction(lambda tx: tx.resources.update(stale, stale))
