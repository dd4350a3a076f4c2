"""What the server's database costs on SQLite, and that it does not grow with what it holds."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path
from statistics import median
from uuid import uuid4

from sqlalchemy import event

from benchmarks.figure import Figure
from netfw.drivers.query import Query
from netfw.model import (
    AllocationPool,
    Binding,
    FixedIp,
    Mac,
    Network,
    Port,
    SecurityGroup,
    Subnet,
)
from netfw.model.resource import Kind
from netfw.server.db import Database, Transaction, migration

SIZES = (1_000, 10_000, 100_000)
RUNS = 200
PAGE = 1_000
NETWORK = Network(id=uuid4(), project_id="p")
SUBNET = Subnet(
    id=uuid4(),
    project_id="p",
    network_id=NETWORK.id,
    cidr="10.0.0.0/8",
    allocation_pools=(AllocationPool(start="10.0.0.2", end="10.255.255.254"),),
)
GROUP = SecurityGroup(id=uuid4(), project_id="p", name="default")


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # a disk, unlike /tmp at times
        database = Database(f"sqlite:///{folder}/netfw.db")
        migration.upgrade(database)
        database.transaction(_prepare)
        raw = Raw(Path(folder))
        yield _statements(database)
        makes: dict[int, tuple[float, float]] = {}
        lists: dict[int, tuple[float, float]] = {}
        for size in SIZES:
            _fill(database, size)
            makes[size] = raw.write(), _median(RUNS, lambda: database.transaction(_make_port))
            lists[size] = raw.read(), _median(5, lambda: _list(database))
        database.close()
        raw.close()
    yield _figure("server: port with address, group, quota, journal", makes, 5.0)
    yield _figure("server: list of 1,000 ports as the API shows them", lists, 60.0)


def _figure(name: str, sizes: dict[int, tuple[float, float]], target: float) -> Figure:
    raw, own = sizes[SIZES[-1]]
    return Figure(
        name=f"{name}, {SIZES[-1]:,} there",
        measured=own * 1000,
        target=target,
        raw_seconds=raw,
        own_seconds=own,
        unit="ms",
        sizes=sizes,
    )


def _statements(database: Database) -> Figure:
    """Of a port on a host that has one of that network and group already."""
    made: list[object] = []
    database.transaction(lambda tx: _make_port(tx, "host1"))

    def note(*_: object) -> None:
        made.append(None)

    event.listen(database.writing, "before_cursor_execute", note)
    began = time.perf_counter()
    database.transaction(lambda tx: _make_port(tx, "host1"))
    took = time.perf_counter() - began
    event.remove(database.writing, "before_cursor_execute", note)
    return Figure(
        name="server: statements of a port, its beginning included",
        measured=len(made),
        target=11,
        raw_seconds=took,
        own_seconds=took,
        unit="",
    )


def _prepare(tx: Transaction) -> None:
    tx.resources.insert(NETWORK)
    tx.resources.insert(SUBNET)
    tx.resources.insert(GROUP)
    tx.addresses.define(SUBNET)


def _make_port(tx: Transaction, host: str = "") -> None:
    tx.resources.insert(_port(tx.addresses.take_any(SUBNET), host))
    tx.quotas.use("p", "port", 1, -1)


def _port(address: object, host: str = "") -> Port:
    id = uuid4()
    tail = ":".join(f"{byte:02x}" for byte in id.bytes[:5])
    return Port(
        id=id,
        project_id="p",
        network_id=NETWORK.id,
        mac=Mac(f"fa:{tail}"),
        fixed_ips=(FixedIp(subnet_id=SUBNET.id, address=ip_address(str(address))),),
        security_groups=frozenset({GROUP.id}),
        binding=Binding(host=host or f"host{id.int % 100}"),
    )


def _fill(database: Database, size: int) -> None:
    """Bring the number of ports to *size*, a thousand in a transaction."""
    there = database.read(lambda view: view.resources.count(Kind.PORT, Query()))

    def some(tx: Transaction, count: int) -> None:
        tx.resources.insert(*map(_port, tx.addresses.take_some(SUBNET, count)))

    while there < size:
        count = min(1_000, size - there)
        database.transaction(lambda tx, count=count: some(tx, count))
        there += count


def _list(database: Database) -> int:
    """The first page of a project."""
    query = Query(filters={"project_id": ("p",)}, limit=PAGE)
    rows = database.read(lambda view: view.resources.find(Kind.PORT, query))
    return len([row.shown for row in rows])


class Raw:
    """The database alone: one row as long as a port in a transaction, and reading a thousand."""

    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(folder / "raw.db", isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            self._connection.execute(f"PRAGMA {pragma}").close()
        self._connection.execute("CREATE TABLE ports (id TEXT PRIMARY KEY, body TEXT)")
        for _ in range(PAGE - RUNS):
            self._write()

    def write(self) -> float:
        return _median(RUNS, self._write)

    def read(self) -> float:
        rows = f"SELECT * FROM ports LIMIT {PAGE}"
        return _median(5, lambda: self._connection.execute(rows).fetchall())

    def close(self) -> None:
        self._connection.close()

    def _write(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("INSERT INTO ports VALUES (?, ?)", (str(uuid4()), "x" * 1_100))
        self._connection.execute("COMMIT")


def _median(runs: int, work: Callable[[], object]) -> float:
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return median(times)
