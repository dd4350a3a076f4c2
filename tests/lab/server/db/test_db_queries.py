"""Filters, orders and pages, the same on every database, in a number of statements that stays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Engine, event

from netfw.drivers.server.query import Query
from netfw.errors import InvalidInput, NotFound
from netfw.model import Binding, JsonDocument, NetworkType, Provider, Segment, SegmentId, Status
from netfw.model.resource import Kind
from netfw.server.db import Database, Transaction
from netfw.server.db.resources.query_builder import selection
from tests.lab.server.db.samples import group, network, port, store, subnet, uid

FILTERS = {
    "nothing": ({}, {10, 11, 12, 13}),
    "one": ({"name": ("b",)}, {11}),
    "any of one": ({"name": ("b", "c", "nobody")}, {11, 12}),
    "all of several": ({"name": ("b", "c"), "status": ("ACTIVE",)}, {12}),
    "no values": ({"name": ()}, set()),
    "case counts": ({"name": ("B",)}, set()),
    "spaces count": ({"name": ("b ",)}, set()),
    "a flag": ({"admin_state_up": (False,)}, {13}),
    "a flag as text": ({"admin_state_up": ("false",)}, {13}),
    "another flag": ({"port_security_enabled": ("True",)}, {10, 11, 12, 13}),
    "a number": ({"revision_number": ("1",)}, {10, 11, 12, 13}),
    "null": ({"qos_policy_id": (None,)}, {10, 11, 12, 13}),
    "host": ({"binding:host_id": ("h1",)}, {10, 11}),
    "project by its old name": ({"tenant_id": ("p",)}, {10, 11, 12, 13}),
    "address": ({"fixed_ips": ("ip_address=10.0.0.11",)}, {11}),
    "any address": ({"fixed_ips": ("ip_address=10.0.0.11", "ip_address=10.0.1.10")}, {10, 11}),
    "address as an object": ({"fixed_ips": (JsonDocument({"ip_address": "10.0.0.11"}),)}, {11}),
    "subnet": ({"fixed_ips": (f"subnet_id={uid(2)}",)}, {10, 11, 12}),
    "address and subnet": (
        {"fixed_ips": ("ip_address=10.0.0.12", f"subnet_id={uid(2)}")},
        {12},
    ),
    "address of another subnet": (
        {"fixed_ips": ("ip_address=10.0.0.12", f"subnet_id={uid(9)}")},
        set(),
    ),
    "part of an address": ({"fixed_ips": ("ip_address_substr=0.1.",)}, {10}),
    "group": ({"security_groups": (str(uid(3)), str(uid(4)))}, {10, 11}),
    "all tags": ({"tags": ("a,b",)}, {10}),
    "any tag": ({"tags-any": ("a,b",)}, {10, 11}),
    "not all tags": ({"not-tags": ("a,b",)}, {11, 12, 13}),
    "no tag": ({"not-tags-any": ("a,b",)}, {12, 13}),
    "what could be SQL": ({"name": ("' OR 1=1 --",)}, set()),
}


@pytest.fixture
def filled(database: Database) -> Database:
    store(database, network(), subnet(2), group(3), group(4))
    one, two = Binding(host="h1"), {group(3).id, group(4).id}
    store(
        database,
        port(10, "10.0.0.10", "10.0.1.10", name="a", binding=one, tags={"a", "b"}),
        port(11, "10.0.0.11", name="b", binding=one, security_groups=two, tags={"a"}),
        port(12, "10.0.0.12", name="c", status=Status.ACTIVE),
        port(13, name="", admin_up=False),
    )
    store(database, port(14, name="other", network_id=uid(1), project_id="q"))
    database.transaction(
        lambda tx: tx.resources.update(
            tx.resources.get(Kind.PORT, uid(10)).resource(),
            port(
                10,
                "10.0.0.10",
                "10.0.1.10",
                name="a",
                binding=one,
                tags={"a", "b"},
                security_groups={group(3).id},
                revision=1,
            ),
        )
    )
    return database


def ids(
    database: Database, kind: Kind = Kind.PORT, project: str | None = None, **query: Any
) -> list[int]:
    asked = Query(**query)
    rows = database.read(lambda view: view.resources.find(kind, asked, project=project))
    return [UUID(row.body["id"]).int for row in rows]


@pytest.mark.spec("API-05")
def test_different_filters_must_all_hold_and_of_one_any_value(filled: Database) -> None:
    found = {}
    expected = {}
    for name, (filters, wanted) in FILTERS.items():
        mine = {"project_id": ("p",), **filters}
        found[name] = set(ids(filled, filters=mine))
        expected[name] = wanted - {10} if "revision_number" in filters else wanted
    assert found == expected


@pytest.mark.spec("API-05")
def test_every_filter_that_cannot_be_is_named(filled: Database) -> None:
    bad = {
        "nmae": ("x",),
        "mtu": ("1",),
        "admin_state_up": ("perhaps",),
        "revision_number": ("one",),
        "fixed_ips": ("10.0.0.1",),
    }
    with pytest.raises(InvalidInput) as caught:
        ids(filled, filters=bad)
    assert caught.value.problems.keys() == bad.keys()
    assert "did you mean 'name'" in caught.value.problems["nmae"]
    with pytest.raises(InvalidInput, match="did you mean 'name'"):
        ids(filled, sort=(("nmae", True),))


def test_networks_are_found_by_their_segments_and_subnets(database: Database) -> None:
    store(database, network(1), network(5), subnet(2))
    for number, of in ((20, 1), (21, 5)):
        provider = Provider(
            network_type=NetworkType.VLAN, physical_network=f"phys{of}", segmentation_id=number
        )
        store(database, Segment(id=SegmentId(uid(number)), network_id=uid(of), provider=provider))
    assert ids(database, Kind.NETWORK, filters={"provider:network_type": ("vlan",)}) == [1, 5]
    assert ids(database, Kind.NETWORK, filters={"provider:segmentation_id": (21,)}) == [5]
    assert ids(database, Kind.NETWORK, filters={"subnets": (str(uid(2)),)}) == [1]


ORDERS = (
    ((), [10, 11, 12, 13, 14]),
    ((("id", False),), [14, 13, 12, 11, 10]),
    ((("name", True),), [13, 10, 11, 12, 14]),
    ((("status", True), ("name", False)), [12, 14, 11, 10, 13]),
    ((("admin_state_up", True),), [13, 10, 11, 12, 14]),
    ((("qos_policy_id", True), ("binding:host_id", False)), [10, 11, 12, 13, 14]),
)


@pytest.mark.spec("API-05")
def test_pages_forward_and_backward_give_the_whole_in_order(filled: Database) -> None:
    for sort, order in ORDERS:
        assert ids(filled, sort=sort) == order
        query = {"sort": sort, "limit": 2}
        assert ids(filled, **query) == order[:2]
        assert ids(filled, **query, marker=uid(order[1])) == order[2:4]
        assert ids(filled, **query, marker=uid(order[3])) == order[4:]
        assert ids(filled, **query, marker=uid(order[4])) == []
        assert ids(filled, **query, marker=uid(order[3]), backwards=True) == order[1:3]
        assert ids(filled, **query, marker=uid(order[1]), backwards=True) == order[:1]
        assert ids(filled, **query, backwards=True) == order[3:]
    with pytest.raises(NotFound, match="to go on from"):
        ids(filled, marker=uid(99))


@contextmanager
def counting(engine: Engine) -> Iterator[list[str]]:
    statements: list[str] = []

    def note(connection: object, cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(engine, "before_cursor_execute", note)


@pytest.mark.spec("ML2-06")
def test_a_list_takes_as_many_statements_however_long_it_is(database: Database) -> None:
    store(database, *(network(1000 + n) for n in range(3)))
    store(database, *(subnet(2000 + n, of=1000 + n) for n in range(3)))

    def statements() -> int:
        with counting(database.reading) as made:
            assert ids(database, Kind.NETWORK)
            assert ids(database, Kind.SUBNET)
        return len(made)

    few = statements()
    database.transaction(lambda tx: tx.resources.insert(*(network(3000 + n) for n in range(400))))
    assert statements() == few <= 8


@pytest.mark.spec("ML2-11")
def test_a_port_with_all_that_belongs_to_it_takes_less_than_a_dozen_statements(
    filled: Database,
) -> None:
    def make(tx: Transaction, number: int) -> None:
        address = tx.addresses.acquire_any(subnet())
        assert address is not None
        made = port(number, address, security_groups={group(3).id}, binding=Binding(host="h1"))
        tx.resources.insert(made)
        tx.quotas.use("p", "port", 1, 100)

    filled.transaction(lambda tx: tx.addresses.take_some(subnet(), 100))
    for number in (20, 21):
        with counting(filled.writing) as made:
            filled.transaction(lambda tx, number=number: make(tx, number))
    assert len(made) < 12, made


LOOKED_UP = (
    {"id": (str(uid(1)),)},
    {"network_id": (str(uid(1)),)},
    {"project_id": ("p",)},
    {"name": ("a",)},
    {"mac_address": ("x",)},
    {"device_id": ("x",)},
    {"binding:host_id": ("h1",)},
    {"fixed_ips": ("ip_address=10.0.0.1",)},
    {"fixed_ips": (f"subnet_id={uid(2)}",)},
    {"security_groups": (str(uid(3)),)},
    {"tags": ("a,b",)},
    {"tags-any": ("a,b",)},
)


@pytest.mark.spec("ML2-11")
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_what_agents_and_filters_ask_for_is_found_by_an_index(filled: Database) -> None:
    for filters in LOOKED_UP:
        rows = selection(Kind.PORT, Query(filters=filters))
        with filled.reading.connect() as connection:
            made = rows.compile(connection, compile_kwargs={"render_postcompile": True})
            values = tuple(made.params[name] for name in made.positiontup or ())
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {made}", values).all()
        steps = [str(step[-1]) for step in plan]
        assert not [step for step in steps if step.startswith("SCAN")], (filters, steps)
