"""What further processes and a broker change: ports made and shown on PostgreSQL, and requests.

All figures are ratios within this run.  On a machine with few cores the load generator, the
database and the workers share them: several machines gain more.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.figure import Figure, ratio
from benchmarks.load import Make, getter, run
from benchmarks.server.api import OPTIONS, Options, Site
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.transport import Transport
from netfw.drivers.values.subscription import Service, Subscription
from netfw.server.db import Database, migration
from netfw.state.rpc import RemoteSource
from netfw.testing.lab.services.databases import PrivatePostgres
from netfw.testing.lab.services.rabbitmq import PrivateRabbitmq
from netfw.testing.lab.services.server import PrivateNetfw

SECONDS = 5.0
CLIENTS = 8
WORKERS = (2, 4)
REQUESTS = 200
AGENT = Subscription("bench-host", {Service.L2})
MADE_AT_MOST, READ_AT_MOST = 1.1, 1.1
"""Time of a request with more workers, by that with one: none may cost on any machine."""


def figures() -> Iterator[Figure]:
    print(f"    {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        place = Path(folder)
        place.chmod(0o755)
        (place / "postgres").mkdir(mode=0o777)
        (place / "postgres").chmod(0o777)
        postgres = PrivatePostgres(place / "postgres", flushed=True).start()
        try:
            yield from _workers(place, postgres)
            yield from _broker(place)
        finally:
            postgres.stop()


def _workers(place: Path, postgres: PrivatePostgres) -> Iterator[Figure]:
    made: dict[int, float] = {}
    read: dict[int, float] = {}
    for count in (1, *WORKERS):
        url = postgres.create(f"netfw{count}")
        database = Database(url)
        migration.upgrade(database)
        database.close()
        options: Options = {
            **OPTIONS, "database": {"connection": url}, "server": {"workers": count},
        }  # fmt: skip
        with PrivateNetfw(place / f"workers{count}", options) as server:
            site = Site(server)
            made[count] = _seconds(site, site.make, f"{count} workers, ports made")
            one = getter(f"/ports/{site.port['id']}")
            read[count] = _seconds(site, one, f"{count} workers, ports shown")
    for count in WORKERS:
        name = f"server, PostgreSQL, {CLIENTS} clients, {count} workers by one:"
        yield ratio(f"{name} made", own=made[count], raw=made[1], target=MADE_AT_MOST)
        yield ratio(f"{name} shown", own=read[count], raw=read[1], target=READ_AT_MOST)


def _seconds(site: Site, make: Make, what: str) -> float:
    """Return the seconds from one request to the next."""
    run(site.url, make, clients=CLIENTS, seconds=1.0)
    load = run(site.url, make, clients=CLIENTS, seconds=SECONDS)
    print(f"    {what}: {load}")
    if not set(load.statuses) <= {200, 201}:
        raise RuntimeError(f"not all requests were served: {load}")
    return 1 / load.rate


def _broker(place: Path) -> Iterator[Figure]:
    """Yield the figure for requests of one agent, by the broker and by a socket."""
    broker = PrivateRabbitmq(place / "rabbitmq").start()
    try:
        url = {"transport_url": broker.url()}
        oslo: Options = {**OPTIONS, "server": {"transport": "oslo"}, "oslo": dict(url)}
        with PrivateNetfw(place / "oslo", oslo):
            by_broker = _request("oslo", dict(url))
        with PrivateNetfw(place / "socket", OPTIONS) as server:
            by_socket = _request("socket", {"connect": f"unix:{server.messages}"})
    finally:
        broker.stop()
    name = "server: request of an agent, RabbitMQ by socket"
    yield ratio(name, own=by_broker, raw=by_socket, target=20.0)


def _request(transport: str, options: dict[str, object]) -> float:
    """Return the median seconds of a request for changes."""
    made = create(Transport, transport, options, LocalHostResources())
    source = RemoteSource(made)
    *_, last = source.snapshot(AGENT)
    times = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        source.changes(AGENT, last.cursor)
        times.append(time.perf_counter() - began)
    source.close()
    made.close()
    return median(times)
