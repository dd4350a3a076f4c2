"""Allowed address pairs that contain an address, in a table of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ipaddress import ip_address

import pytest
from attrs import evolve

from netfw.model import NetworkId
from netfw.model.binding import Binding
from netfw.model.port import AddressPair
from netfw.server.db import Database, migration
from netfw.server.db.resources.address_pairs import SELECT_CONTAINING, pairs_containing
from tests.lab.databases import EmptyDatabase
from tests.lab.server.db.samples import network, port, uid

pytestmark = pytest.mark.spec("API-19")


def pairs(*prefixes: str) -> tuple[AddressPair, ...]:
    return tuple(AddressPair(prefix=each) for each in prefixes)


def find(database: Database, *addresses: str, of: int = 1) -> set[tuple[int, str]]:
    """Return the numbers of ports whose pairs contain an address, with the pairs."""
    wanted = [ip_address(each) for each in addresses]
    rows = database.transaction(
        lambda tx: pairs_containing(tx.connection, NetworkId(uid(of)), wanted)
    )
    return {(id.int, str(prefix)) for id, prefix in rows}


def store(database: Database, ports: Iterable[tuple[int, int, str]]) -> None:
    database.transaction(lambda tx: tx.resources.insert(network(1), network(2)))
    made = [
        port(number, network_id=NetworkId(uid(of)), allowed_address_pairs=pairs(*text.split()))
        for number, of, text in ports
    ]
    database.transaction(lambda tx: tx.resources.insert(*made))


def test_pairs_of_a_network_are_found_by_the_addresses_that_they_contain(
    database: Database,
) -> None:
    store(
        database,
        [
            (11, 1, "10.0.0.5 2001:db8::5"),
            (12, 1, "10.0.0.0/24 0.0.0.0/0"),
            (13, 1, "2001:db8::/64 10.0.0.6"),
            (14, 2, "10.0.0.5"),
            (15, 1, ""),
        ],
    )
    around = {(12, "10.0.0.0/24"), (12, "0.0.0.0/0")}
    assert find(database, "10.0.0.5") == {(11, "10.0.0.5/32"), *around}
    assert find(database, "10.0.1.5") == {(12, "0.0.0.0/0")}
    assert find(database, "10.0.0.5", of=2) == {(14, "10.0.0.5/32")}
    v6 = {(11, "2001:db8::5/128"), (13, "2001:db8::/64")}
    assert find(database, "2001:db8::5") == v6
    six = {(13, "10.0.0.6/32")}
    assert find(database, "10.0.0.6", "2001:db8::5") == {*six, *around, *v6}
    assert find(database) == set()


def test_pairs_follow_their_port(database: Database) -> None:
    store(database, [(11, 1, "10.0.0.5")])
    before = port(11, allowed_address_pairs=pairs("10.0.0.5"), revision=1)
    after = evolve(before, allowed_address_pairs=pairs("10.0.0.6"))
    stored = database.transaction(lambda tx: tx.resources.update(before, after))
    assert find(database, "10.0.0.5", "10.0.0.6") == {(11, "10.0.0.6/32")}
    database.transaction(lambda tx: tx.resources.delete(stored))
    assert find(database, "10.0.0.6") == set()


def test_one_prefix_with_two_mac_addresses_is_one_row(database: Database) -> None:
    twice = (*pairs("10.0.0.5"), AddressPair(prefix="10.0.0.5", mac="fa:16:3e:00:00:99"))
    database.transaction(lambda tx: tx.resources.insert(network(1)))
    database.transaction(lambda tx: tx.resources.insert(port(11, allowed_address_pairs=twice)))
    assert find(database, "10.0.0.5") == {(11, "10.0.0.5/32")}


def test_an_index_finds_them(file_database: Database) -> None:
    # Only SQLite shows it: the other databases choose a plan by the number of rows.
    values = {"network": "n", "prefixes": ["10.0.0.5/32", "10.0.0.4/31"]}
    with file_database.writing.begin() as connection:
        text = SELECT_CONTAINING.params(values).compile(
            connection, compile_kwargs={"literal_binds": True}
        )
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}").all()
    (step,) = (str(row[-1]) for row in plan)
    assert "ix_port_address_pairs_network_id_prefix (network_id=? AND prefix=?)" in step


@pytest.mark.spec("ML2-11")
def test_they_are_filled_from_stored_ports(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    # A former downgrade has written the body of the second port.
    database = open_database(empty_database.url)
    migration.upgrade(database)
    store(database, [(11, 1, "10.0.0.0/24 10.0.0.5"), (13, 2, "")])
    prepared = Binding(host="one", prepared_hosts=("two",))
    moving = port(12, allowed_address_pairs=pairs("10.0.0.5"), binding=prepared)
    database.transaction(lambda tx: tx.resources.insert(moving))
    before = find(database, "10.0.0.5")
    assert len(before) == 3
    migration.downgrade(database, "0013")
    migration.upgrade(database)
    assert find(database, "10.0.0.5") == before
    migration.downgrade(database, "0014")
    migration.upgrade(database)
    assert find(database, "10.0.0.5") == before
    assert migration.differences(database) == ()
