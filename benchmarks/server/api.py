"""What requests cost, through HTTP, of a server as it is run: on SQLite and on PostgreSQL."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from uuid import uuid4

from attrs import frozen

from benchmarks.figure import Figure, megabytes, milliseconds
from benchmarks.load import Client, Load, getter, port_maker, prepare_network, run
from benchmarks.process_usage import process_cpu, resident
from benchmarks.server.limits import Raw, overload, statements
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.transport import Transport
from netfw.drivers.values.reports import Heartbeat
from netfw.model import Agent, AgentId, JsonDocument
from netfw.server.db import Database, migration
from netfw.state.rpc import RemoteSource
from netfw.testing.lab.services.databases import PrivatePostgres
from netfw.testing.lab.services.server import PrivateNetfw

SECONDS = 5.0
MANY = 100_000
CLIENTS = 8
BULK = 1_000
SHOWN = 200
Options = dict[str, dict[str, object]]
OPTIONS: Options = {"quotas": {"quota_port": -1}, "scheduling": {"agent_down_time": 3600}}
AGENT = Agent(
    id=AgentId(uuid4()),
    agent_type="Open vSwitch agent",
    binary="netfw-ovs-agent",
    host="bench-host",
    configurations=JsonDocument({"tunneling_ip": "192.0.2.1", "tunnel_types": ["vxlan"]}),
)


@frozen(kw_only=True)
class Targets:
    """Milliseconds from one request to the next."""

    alone: float
    together: float


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # a disk, unlike /tmp at times
        place = Path(folder)
        raw = Raw(place)
        yield statements(place)
        with _server(place / "sqlite", {}) as site:
            yield from site.making("SQLite", raw.commit(), Targets(alone=5.0, together=4.0))
            yield from site.reading(raw)
            site.fill(place / "sqlite" / "netfw.db")
            yield from site.grown(raw)
        with _server(place / "sqlite", {}) as site:
            yield from site.filling()
            yield overload(site.client, site.url, site.network, site.server.pid)
            size = resident(site.server.pid)
            yield megabytes("server: resident, after all of this", size, 100.0)
        (place / "postgres").mkdir(mode=0o777)
        (place / "postgres").chmod(0o777)
        place.chmod(0o755)
        postgres = PrivatePostgres(place / "postgres", flushed=True).start()
        try:
            url = postgres.create("netfw")
            migration.upgrade(Database(url))
            options: Options = {"database": {"connection": url}}
            with _server(place / "on-postgres", options) as site:
                yield from site.making("PostgreSQL", 0.0, Targets(alone=10.0, together=6.667))
        finally:
            postgres.stop()


class Site:
    """A server, with a network and an agent that ports are bound to."""

    def __init__(self, server: PrivateNetfw) -> None:
        self.server, self.url = server, f"unix://{server.socket}"
        transport = create(
            Transport, "socket", {"connect": f"unix:{server.messages}"}, LocalHostResources()
        )
        source = RemoteSource(transport)
        source.report([Heartbeat(agent=AGENT, start=True)])
        source.close()
        transport.close()
        self.client = Client(self.url)
        self.network = prepare_network(self.client)
        self.make = port_maker(self.network)
        port = self.client.create("/ports", {"port": self.body})
        if port["binding:vif_type"] != "ovs":
            raise RuntimeError(f"the port is not bound: {port}")
        self.port = port

    @property
    def body(self) -> dict[str, object]:
        return {"network_id": self.network, "binding:host_id": AGENT.host}

    def making(self, kind: str, raw: float, targets: Targets) -> Iterator[Figure]:
        self._load(clients=1, seconds=1.0)
        name = f"server, {kind}: port made,"
        alone = 1 / self._load(clients=1).rate
        yield milliseconds(f"{name} one client", alone, targets.alone, raw)
        together = 1 / self._load(clients=CLIENTS).rate
        yield milliseconds(f"{name} {CLIENTS} clients", together, targets.together, raw)
        half = 500 / targets.together
        calm = self._load(clients=CLIENTS, rate=half)
        yield milliseconds(f"{name} p99 at {half:.0f}/s", calm.within(0.99), 50.0, raw=raw)
        yield self._bulk(kind)

    def reading(self, raw: Raw, when: str = "") -> Iterator[Figure]:
        shows = run(self.url, getter(f"/ports/{self.port['id']}"), clients=1, seconds=1.0)
        took = median(shows.times)
        yield milliseconds(f"server: port shown{when}", took, 2.0, raw=raw.answer())
        page = f"/ports?limit={BULK}"
        took = timed(self.client, "GET", page, runs=9)
        yield milliseconds(f"server: {BULK:,} ports listed{when}", took, 60.0, raw=raw.read())

    def grown(self, raw: Raw) -> Iterator[Figure]:
        when = f", {MANY:,} there"
        each = 1 / self._load(clients=1).rate
        yield milliseconds(f"server, SQLite: port made, one client{when}", each, 5.0, raw.commit())
        yield from self.reading(raw, when)

    def fill(self, file: Path) -> None:
        """Bring the ports to a hundred thousand: copies of one, with another id, MAC, address."""
        with sqlite3.connect(file, isolation_level=None) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("BEGIN IMMEDIATE")
            for table, key in _TABLES.items():
                query = f"SELECT * FROM {table} WHERE {key} = ?"
                row = connection.execute(query, (self.port["id"],)).fetchone()
                marks = ", ".join("?" * len(row))
                rows = (self._copied(row, number) for number in range(MANY))
                connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
            connection.execute("COMMIT")

    def _copied(self, row: sqlite3.Row, number: int) -> tuple[object, ...]:
        address = f"10.{128 + number // 65536}.{number // 256 % 256}.{number % 256}"
        mac = f"0e:00:00:{number // 65536:02x}:{number // 256 % 256:02x}:{number % 256:02x}"
        swaps = {
            self.port["id"]: f"{number:08x}-0000-4000-8000-000000000000",
            self.port["mac_address"]: mac,
            self.port["fixed_ips"][0]["ip_address"]: address,
        }
        return tuple(_swapped(value, swaps) for value in row)

    def filling(self) -> Iterator[Figure]:
        """Yield the figures that take memory, of a server that starts with its tables in place."""
        self._load(clients=CLIENTS, seconds=1.0)
        yield self._bulk(f"SQLite, {MANY:,} there")
        timed(self.client, "GET", f"/ports?limit={BULK}", runs=3)

    def _bulk(self, kind: str) -> Figure:
        ports = {"ports": [self.body] * BULK}
        took = timed(self.client, "POST", "/ports", ports, runs=1)
        return milliseconds(f"server, {kind}: {BULK:,} ports in one request", took, 2000.0)

    def _load(self, *, clients: int, seconds: float = SECONDS, rate: float | None = None) -> Load:
        used = process_cpu(self.server.pid)
        found = run(self.url, self.make, clients=clients, seconds=seconds, rate=rate)
        used = (process_cpu(self.server.pid) - used) / len(found.times)
        print(f"    {clients} clients: {found}, {used * 1000:.1f} ms of CPU each")
        if set(found.statuses) != {201}:
            raise RuntimeError(f"not all ports were made: {found}")
        return found


def _swapped(value: object, swaps: dict[str, str]) -> object:
    if isinstance(value, str):
        for old, new in swaps.items():
            value = value.replace(old, new)
    return value


_TABLES = {"ports": "id", "port_addresses": "port_id", "port_groups": "port_id"}


@contextmanager
def _server(folder: Path, options: Options) -> Iterator[Site]:
    with PrivateNetfw(folder, {**OPTIONS, **options}) as server:
        yield Site(server)


def timed(client: Client, method: str, path: str, body: object = None, *, runs: int) -> float:
    request = client.prepared(method, path, body)
    times = []
    for _ in range(runs):
        began = time.monotonic()
        status, content = client.send(request)
        times.append(time.monotonic() - began)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {content[:300]!r}")
    return median(times)
