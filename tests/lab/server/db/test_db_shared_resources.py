"""Resources that projects share: who sees them, and what it costs to find out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast
from uuid import UUID

import pytest
from sqlalchemy import Select

from netfw.drivers.server.query import Query
from netfw.errors import NotFound
from netfw.model.rbac_policy import RbacAction, RbacPolicy
from netfw.model.resource import Kind
from netfw.model.security_group import AddressGroup
from netfw.model.values.ids import AddressGroupId
from netfw.server.db import Database, migration
from netfw.server.db.resources.query_builder import selection
from netfw.server.db.resources.visibility import project_values, visible
from tests.lab.databases import EmptyDatabase
from tests.lab.server.db.samples import group, network, policy, port, store, subnet, uid

pytestmark = pytest.mark.spec("API-07", "API-09")

OTHERS = 3000
"""Networks of others, each with a policy for others, so that a scan of them is not the best."""


def ids(database: Database, kind: Kind, project: str | None, **query: Any) -> list[int]:
    found = database.read(
        lambda view: view.resources.find(kind, Query(**query), project=project, viewer=project)
    )
    return [row.ref.id.int for row in found]


def fill(database: Database) -> None:
    store(
        database,
        network(1, project_id="p"),
        network(4, project_id="q"),
        network(5, project_id="q"),
        network(6, project_id="q", external=True),
        subnet(2, of=1),
        subnet(7, of=5, project_id="q"),
        subnet(8, of=4, project_id="q"),
        subnet(13, of=6, project_id="q"),
        group(3, project_id="q"),
        group(9, project_id="q", shared=True),
        port(10, project_id="q"),
        port(11, project_id="q", network_id=uid(5)),
        port(12, project_id="p", network_id=uid(5)),
        AddressGroup(id=AddressGroupId(uid(14)), project_id="q"),
        policy(20, of=5),
        policy(21, of=6, target="*", action=RbacAction.EXTERNAL),
        policy(22, of=9, target="*", object_type="security_group"),
        policy(23, of=4, target="r"),
        policy(24, of=14, object_type="address_group"),
    )


def test_a_project_sees_its_own_and_what_policies_share_with_it(database: Database) -> None:
    fill(database)
    assert ids(database, Kind.NETWORK, "p") == [1, 5, 6]
    assert ids(database, Kind.NETWORK, "r") == [4, 6]
    assert ids(database, Kind.NETWORK, None) == [1, 4, 5, 6]
    assert ids(database, Kind.SUBNET, "p") == [2, 7]
    assert ids(database, Kind.SECURITY_GROUP, "p") == [9]
    assert ids(database, Kind.ADDRESS_GROUP, "p") == [14]
    assert ids(database, Kind.ADDRESS_GROUP, "r") == []
    assert ids(database, Kind.PORT, "p") == [10, 12]
    assert ids(database, Kind.NETWORK, "p", limit=1, marker=uid(5)) == [6]
    assert ids(database, Kind.PORT, "p", marker=uid(10)) == [12]
    with pytest.raises(NotFound, match="to go on from"):  # nor where others' sort among one's own
        ids(database, Kind.PORT, "p", marker=uid(11))


def test_single_resources_are_visible_as_in_lists(database: Database) -> None:
    fill(database)
    for kind in (Kind.NETWORK, Kind.SUBNET, Kind.SECURITY_GROUP, Kind.ADDRESS_GROUP):
        everything = ids(database, kind, None)
        named = {"id": tuple(str(uid(each)) for each in everything)}
        for project in ("p", "q", "r"):
            visible_ids = ids(database, kind, project)
            assert ids(database, kind, project, filters=named) == visible_ids
            assert [each for each in everything if shows(database, kind, each, project)] == (
                visible_ids
            )


def shows(database: Database, kind: Kind, number: int, project: str) -> bool:
    id = UUID(int=number)
    try:
        database.read(lambda view: view.resources.get(kind, id, project=project, viewer=project))
    except NotFound:
        return False
    return True


def test_shared_is_as_the_viewer_sees_it(database: Database) -> None:
    fill(database)

    def view(viewer: str | None) -> dict[int, bool]:
        rows = database.read(lambda view: view.resources.find(Kind.NETWORK, Query(), viewer=viewer))
        return {row.ref.id.int: row.body["shared"] for row in rows if row.body["shared"]}

    assert (view("p"), view("r"), view("q"), view(None)) == ({5: True}, {4: True}, {}, {})
    for shared, expected in ((True, [5]), (False, [1, 6]), ("true", [5])):
        assert ids(database, Kind.NETWORK, "p", filters={"shared": (shared,)}) == expected
    assert ids(database, Kind.NETWORK, "p", filters={"shared": (True, False)}) == [1, 5, 6]
    assert ids(database, Kind.SECURITY_GROUP, "p", filters={"shared": (True,)}) == [9]
    for shared, expected in ((True, [7]), (False, [2]), ("true", [7])):
        assert ids(database, Kind.SUBNET, "p", filters={"shared": (shared,)}) == expected
    assert ids(database, Kind.SUBNET, "p", filters={"shared": (True, False)}) == [2, 7]
    assert ids(database, Kind.SUBNET, None, filters={"shared": (False,)}) == [2, 7, 8, 13]


@pytest.mark.spec("ML2-11")
def test_stored_flags_become_policies_with_an_upgrade(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    database = open_database(empty_database.url)
    migration.upgrade(database)
    store(
        database,
        network(1, project_id="p"),
        network(2, project_id="q", shared=True),
        network(3, project_id="q", shared=True, external=True),
        network(4, project_id="", external=True),
        group(5, project_id="r", shared=True),
        AddressGroup(id=AddressGroupId(uid(6)), project_id="r", shared=True),
        policy(7, of=1, target="x"),
    )
    migration.downgrade(database, "0015")
    migration.upgrade(database)
    rows = database.read(lambda view: view.resources.find(Kind.RBAC_POLICY, Query()))
    policies = [cast(RbacPolicy, row.resource()) for row in rows]
    assert {(each.object_type, each.object_id.int, each.action.value) for each in policies} == {
        ("network", 2, "access_as_shared"),
        ("network", 3, "access_as_shared"),
        ("network", 3, "access_as_external"),
        ("network", 4, "access_as_external"),
        ("security_group", 5, "access_as_shared"),
        ("address_group", 6, "access_as_shared"),
    }
    assert {(each.target_project, each.revision) for each in policies} == {("*", 1)}
    assert ids(database, Kind.NETWORK, "p") == [1, 2, 3, 4]
    used = {
        project: database.read(lambda view, of=project: view.quotas.of_project(of))
        for project in ("p", "q", "r", "")
    }
    assert {each: usages["rbac_policy"].used for each, usages in used.items() if usages} == {
        "q": 3,
        "r": 2,
    }


def plan(database: Database, statement: Select[Any]) -> list[str]:
    """Return the lines of the query plan of *statement*."""
    with database.writing.connect() as connection:
        dialect = connection.dialect.name
        if dialect != "mariadb":
            connection.exec_driver_sql("ANALYZE")
        filled = statement.params(project_values("p", "p"))
        compiled = filled.compile(connection, compile_kwargs={"literal_binds": True})
        explain = "EXPLAIN QUERY PLAN" if dialect == "sqlite" else "EXPLAIN"
        rows = connection.exec_driver_sql(f"{explain} {compiled}".replace("%", "%%"))
        if dialect == "mariadb":
            return [f"{row.table} {row.type}" for row in rows]
        return [str(row[-1]).strip() for row in rows]


SCANS = re.compile(
    r"(-> +)?(Seq Scan|SCAN (?!CONSTANT))|(networks|subnets|security)\w* (ALL|index)$"
)
"""Lines of plans that read a whole table."""


@pytest.mark.parametrize("kind", [Kind.NETWORK, Kind.SECURITY_GROUP, Kind.SUBNET])
def test_what_others_own_and_share_is_not_read(database: Database, kind: Kind) -> None:
    fill(database)
    numbers = range(OTHERS)
    for others in (
        [network(1000 + n, project_id=f"other{n}") for n in numbers],
        [group(10_000 + n, project_id=f"other{n}") for n in numbers],
        [policy(20_000 + n, of=1000 + n, target=f"another{n}") for n in numbers],
        [subnet(30_000 + n, of=1000 + n, project_id=f"other{n}") for n in numbers],
    ):
        database.transaction(lambda tx, new=others: tx.resources.insert(*new))
    listed = selection(kind, Query(limit=100), viewed=True).where(visible(kind))
    named = Query(filters={"id": (str(uid(5)),)})
    one = selection(kind, named, viewed=True).where(visible(kind, by_id=True))
    for statement in (listed, one):
        lines = plan(database, statement)
        assert not any(map(SCANS.match, lines)), lines
