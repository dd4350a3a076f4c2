"""Migrations: the tables of the code, upgrades with data, and downgrades."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_network
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve
from sqlalchemy import Integer, MetaData, Table, select

from netfw.drivers.server.query import Query
from netfw.drivers.values.subscription import Service
from netfw.errors import BackendBroken, CursorLost, InvalidInput
from netfw.model.agent import Agent
from netfw.model.binding import Binding
from netfw.model.floating_ip import FloatingIp
from netfw.model.network import Network
from netfw.model.port import FixedIp, Port
from netfw.model.resource import Kind, Ref, Resource
from netfw.model.router import Router
from netfw.model.subnet import Subnet
from netfw.model.values.address import Mac, as_address
from netfw.model.values.device_owner import DeviceOwner
from netfw.model.values.ids import AgentId
from netfw.model.values.json_document import JsonDocument
from netfw.server.db import Database, migration
from netfw.server.db.agents.tunnel_addresses import TunnelAddresses
from netfw.server.db.database import Transaction
from netfw.server.db.schema.tables import SUBSCRIPTIONS
from netfw.state.dependencies import Assignment
from tests.lab.databases import EmptyDatabase


@pytest.mark.spec("ML2-11")
def test_tables_come_with_an_upgrade_are_as_declared_and_go_with_a_downgrade(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    database = open_database(empty_database.url)
    assert migration.current(database) is None
    for _ in range(2):
        migration.upgrade(database)
        assert migration.current(database) == migration.newest()
        assert migration.differences(database) == ()
        migration.upgrade(database)
        migration.downgrade(database, "base")
        assert migration.current(database) is None


def test_concurrent_upgrades_wait_for_the_first(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    databases = [open_database(empty_database.url) for _ in range(4)]
    with ThreadPoolExecutor(len(databases)) as pool:
        assert list(pool.map(migration.upgrade, databases)) == [None] * len(databases)
    assert migration.differences(databases[0]) == ()


def test_missing_tables_are_refused_with_the_command_to_run(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    database = open_database(empty_database.url)
    with pytest.raises(BackendBroken, match="netfw-db upgrade"):
        migration.require_newest(database)
    with pytest.raises(BackendBroken, match="netfw-db upgrade"):
        database.read(lambda view: view.journal.cursor())
    with pytest.raises(InvalidInput, match="7777"):
        migration.upgrade(database, "7777")


def test_tables_of_a_newer_release_are_refused_with_the_command_to_run(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    database = open_database(empty_database.url)
    migration.upgrade(database)
    with database.writing.begin() as connection:
        connection.exec_driver_sql(f"UPDATE {migration.VERSION_TABLE} SET version_num = '7777'")
    message = f"version 7777 .*netfw-db downgrade {migration.newest()}` with the newer release"
    for refused in (
        migration.upgrade,
        migration.require_newest,
        lambda database: migration.downgrade(database, "base"),
    ):
        with pytest.raises(BackendBroken, match=message):
            refused(database)


def test_missing_column_is_reported(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    database = open_database(empty_database.url)
    migration.upgrade(database)
    with database.writing.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE routers DROP COLUMN ha")
    assert migration.differences(database) == ("add column: routers ha",)


def test_new_column_is_filled_from_stored_resources(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    database = open_database(empty_database.url)
    migration.upgrade(database)
    networks = [
        Network(id=UUID(int=number), project_id="p", port_security=number != 2)
        for number in (1, 2, 3)
    ]
    database.transaction(lambda tx: tx.resources.insert(*networks))
    migration.downgrade(database, "0005")
    migration.upgrade(database)

    def found(value: bool) -> list[int]:
        query = Query(filters={"port_security_enabled": (value,)})
        rows = database.read(lambda view: view.resources.find(Kind.NETWORK, query))
        return [row.ref.id.int for row in rows]

    assert (found(True), found(False)) == ([1, 3], [2])


GROUP, AGENT = str(UUID(int=1)), str(UUID(int=2))
RENAMED: dict[str, dict[str, Any]] = {
    "security_groups": {"id": GROUP, "project_id": "p", "name": "n"},
    "interests": {"reader": "l2@h", "topic": "t", "uses": 2, "since": 3, "ended": None},
    "default_groups": {"project_id": "p", "security_group_id": GROUP},
    "documents": {
        "resource": "tap",
        "id": GROUP,
        "parent_id": None,
        "revision": 1,
        "body": "{}",
    },
    "reports": {
        "resource_id": GROUP,
        "service": "l2",
        "host": "h",
        "kind": "port",
        "revision": 4,
        "status": "ACTIVE",
        "reason": "",
    },
    "heartbeats": {"agent_id": AGENT, "at": 5, "started": 6, "said": "d", "counts": "{}"},
    "outbox_lanes": {
        "driver": "d",
        "lane": "l",
        "owner": "",
        "until": 0,
        "attempts": 7,
        "again": 8,
        "error": "",
    },
}
TABLES = {
    "interests": "subscriptions",
    "default_groups": "default_security_groups",
    "documents": "vendor_resources",
    "reports": "status_reports",
}
COLUMNS = {"said": "state_digest", "again": "retry_at"}


@pytest.mark.spec("ML2-11")
def test_renamed_tables_and_columns_keep_their_rows_both_ways(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    database = open_database(empty_database.url)
    migration.upgrade(database, "0006")
    new = {
        TABLES.get(table, table): {COLUMNS.get(name, name): value for name, value in row.items()}
        for table, row in RENAMED.items()
    }
    _insert(database, RENAMED)
    migration.upgrade(database, "0013")  # the next one computes subscriptions anew
    assert _read(database, new) == new
    migration.downgrade(database, "0006")
    assert _read(database, RENAMED) == RENAMED


@pytest.mark.spec("ML2-11")
def test_ha_attributes_go_with_a_downgrade_and_the_resources_stay(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    database = open_database(empty_database.url)
    migration.upgrade(database)
    network = Network(id=UUID(int=1), project_id="p")
    router = Router(id=UUID(int=2), project_id="p", ha=True, vrid=7)
    port = Port(
        id=UUID(int=3),
        network_id=network.id,
        mac=Mac("fa:16:3e:00:00:01"),
        binding=Binding(host="a", hosts={"a", "b"}),
    )
    for resource in (network, router, port):
        database.transaction(lambda tx, resource=resource: tx.resources.insert(resource))
    migration.downgrade(database, "0008")
    migration.upgrade(database)

    def stored(kind: Kind) -> Resource:
        return database.read(lambda view: view.resources.find(kind, Query()))[0].resource()

    assert migration.differences(database) == ()
    assert stored(Kind.ROUTER) == evolve(router, revision=1, vrid=None)
    assert stored(Kind.PORT) == evolve(port, revision=1, binding=Binding(host="a"))


def _insert(database: Database, tables: Mapping[str, Mapping[str, Any]]) -> None:
    with database.writing.begin() as connection:
        for name, row in tables.items():
            table = Table(name, MetaData(), autoload_with=connection, resolve_fks=False)
            required = {
                column.name: 0 if isinstance(column.type, Integer) else ""
                for column in table.columns
                if not column.nullable
            }
            connection.execute(table.insert().values({**required, **row}))


def _read(database: Database, tables: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    rows = {}
    with database.writing.begin() as connection:
        for name, expected in tables.items():
            table = Table(name, MetaData(), autoload_with=connection, resolve_fks=False)
            (row,) = connection.execute(table.select()).mappings()
            rows[name] = {column: row[column] for column in expected}
    return rows


def agent_with_tunnel(number: int, address: str | None) -> Agent:
    return Agent(
        id=AgentId(UUID(int=number)),
        agent_type="Open vSwitch agent",
        binary="netfw-ovs-agent",
        host=f"host{number}",
        configurations=JsonDocument({"tunneling_ip": address}),
    )


def upgraded_tunnel_hosts(database: Database, *addresses: str) -> list[str | None]:
    """Create the table of tunnel addresses anew; return the host of each address."""
    migration.downgrade(database, "0012")
    migration.upgrade(database)

    def hosts(tx: Transaction) -> list[str | None]:
        found = TunnelAddresses(tx.connection)
        return [found.host_of(as_address(each)) for each in addresses]

    return database.transaction(hosts)


@pytest.mark.spec("RPC-06")
def test_tunnel_addresses_are_filled_from_stored_agents(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    database = open_database(empty_database.url)
    migration.upgrade(database)
    scoped = (f"fe80::1%{'x' * 300}", "fe80::1%\u00e9", "::ffff:192.0.2.9")
    addresses = ["192.0.2.1", "2001:db8:0::1", "192.0.2.1", None, "no address", *scoped]
    agents = [agent_with_tunnel(number, address) for number, address in enumerate(addresses)]
    database.transaction(lambda tx: tx.resources.insert(*agents))
    known = upgraded_tunnel_hosts(database, "192.0.2.1", "2001:db8::1", "fe80::1", "192.0.2.9")
    assert known == ["host0", "host1", None, "host7"]


@pytest.mark.spec("RPC-06")
def test_tunnel_address_of_two_agents_is_that_of_the_live_one(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    # A host that was renamed has left an agent, which is dead.
    database = open_database(empty_database.url)
    migration.upgrade(database)
    agents = [agent_with_tunnel(number, "192.0.2.1") for number in range(3)]
    database.transaction(lambda tx: tx.resources.insert(*agents))
    database.transaction(lambda tx: tx.heartbeats.record(agents[0].id))
    with database.writing.begin() as connection:
        connection.exec_driver_sql("UPDATE heartbeats SET at = at - 86400000")
    database.transaction(lambda tx: tx.heartbeats.record(agents[1].id))
    assert upgraded_tunnel_hosts(database, "192.0.2.1") == ["host1"]


@pytest.mark.spec("ML2-11", "RPC-08")
def test_subscriptions_follow_the_rules_of_the_release_both_ways(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    # The former release sends floating IPs to all hosts of a router, and its neighbours.
    database = open_database(empty_database.url)
    migration.upgrade(database)
    items = _distributed_router()
    for item in items:
        database.transaction(lambda tx, item=item: _add(tx, item))
    subnet, router, instance = items[1].id, items[2].id, items[4].id
    new, before = _subscriptions(database), database.read(lambda view: view.journal.cursor())
    migration.downgrade(database, "0013")
    old, names = _subscriptions(database), {"l3@a", "l3@b", "l3@gw", "l3@fg"}
    roles = {topic.partition(":")[0] for _, topic in old}
    assert roles.isdisjoint({"assigned", "distributed", "distributed_peers"})
    assert {reader for reader, topic in old if topic == f"home:router:{router}"} == names
    assert {reader for reader, topic in old if topic == f"around:subnet:{subnet}"} == names
    assert {reader for reader, topic in old if topic == f"seen:port:{instance}"} == names
    assert old["l3@fg", f"routed:subnet:{subnet}"] == 1
    migration.upgrade(database)
    assert migration.differences(database) == ()
    assert _subscriptions(database) == new
    with pytest.raises(CursorLost):
        database.read(lambda view: view.journal.check(before))


@pytest.mark.spec("ML2-11")
def test_hosts_of_floating_ips_and_prepared_hosts_go_with_a_downgrade(
    empty_database: EmptyDatabase, open_database: Callable[..., Database]
) -> None:
    database = open_database(empty_database.url)
    migration.upgrade(database)
    items = _distributed_router(host="a", prepared=("c",))
    for item in items:
        database.transaction(lambda tx, item=item: _add(tx, item))
    assert any(reader == "l2@c" for reader, _ in _subscriptions(database))
    migration.downgrade(database, "0013")
    assert not any(reader == "l2@c" for reader, _ in _subscriptions(database))
    migration.upgrade(database)
    former = {each.id: each for each in _distributed_router() if not isinstance(each, Assignment)}
    for kind in (Kind.PORT, Kind.FLOATING_IP):
        for row in database.read(lambda view, kind=kind: view.resources.find(kind, Query())):
            assert row.resource() == evolve(former[row.ref.id], revision=1)


def _distributed_router(host: str | None = None, prepared: tuple[str, ...] = ()) -> tuple[Any, ...]:
    """Return a router on two hosts with instances, its other ports, and a floating IP with *host*
    of an instance for which others are *prepared*."""
    network = Network(id=UUID(int=1), project_id="p")
    subnet = Subnet(id=UUID(int=2), network_id=network.id, cidr=ip_network("10.0.0.0/24"))
    router = Router(id=UUID(int=3), project_id="p", distributed=True)

    def port(number: int, host: str, owner: str = "", ahead: tuple[str, ...] = ()) -> Port:
        return Port(
            id=UUID(int=number),
            network_id=network.id,
            mac=Mac(f"fa:16:3e:00:00:{number:02x}"),
            fixed_ips=(FixedIp(subnet_id=subnet.id, address=subnet.cidr[number]),),
            binding=Binding(host=host, prepared_hosts=ahead),
            device_owner=owner,
            device_id=str(router.id) if owner else "",
        )

    floating = FloatingIp(
        id=UUID(int=4),
        network_id=network.id,
        address=subnet.cidr[99],
        port_id=UUID(int=11),
        router_id=router.id,
        host=host,
    )
    return (
        network,
        subnet,
        router,
        port(10, "", DeviceOwner.ROUTER_INTERFACE_DISTRIBUTED.value),
        port(11, "a", ahead=prepared),
        port(12, "b"),
        port(13, "gw", DeviceOwner.ROUTER_GATEWAY.value),
        port(14, "fg", DeviceOwner.FLOATING_IP_AGENT_GATEWAY.value),
        floating,
        Assignment(Service.L3, "gw", Ref(Kind.ROUTER, router.id)),
    )


def _add(tx: Transaction, item: Any) -> None:
    if isinstance(item, Assignment):
        tx.assignments.add(item)
    else:
        tx.resources.insert(item)


def _subscriptions(database: Database) -> dict[tuple[str, str], int]:
    with database.writing.begin() as connection:
        rows = connection.execute(select(SUBSCRIPTIONS).where(SUBSCRIPTIONS.c.uses > 0))
        return {(row.reader, row.topic): row.uses for row in rows}
