"""`python -m benchmarks.server.speed [sqlite] [postgresql] [mariadb]`: how fast ports are made.

For each database: rates with one and more clients and workers, the CPU of server and database for
each port, a bulk request, a list, and the CPU at rest.  Each line has its target and, where there
is one, the raw limit of the same run: a constant answer by the same HTTP server and, on SQLite, a
flushed row as long as a port; a thousand such rows read.  The first line is the speed of the CPU.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from benchmarks.figure import Figure, milliseconds, percent
from benchmarks.load import run
from benchmarks.process_usage import process_cpu
from benchmarks.server.api import BULK, MANY, OPTIONS, Options, Site, timed
from benchmarks.server.limits import Raw
from netfw.server.db import Database, migration
from netfw.testing.lab.services.databases import PrivateMariadb, PrivatePostgres
from netfw.testing.lab.services.server import PrivateNetfw

SECONDS, WARM_UP = 5.0, 3.0
COUNTED = 100_000
"""Items of the dictionary by which the CPU is timed."""
IDLE_SECONDS = 20.0
LISTED_WITHIN, BULK_WITHIN, IDLE_SHARE = 25.0, 600.0, 0.5


@frozen
class Shape:
    """Clients and workers, and the ports each second that are to be made."""

    clients: int
    workers: int
    rate: float


SHAPES: dict[str, tuple[Shape, ...]] = {
    "sqlite": (Shape(1, 1, 300), Shape(8, 1, 300), Shape(32, 1, 300)),
    "postgresql": (
        Shape(1, 1, 150),
        Shape(8, 2, 300),
        Shape(32, 2, 300),
        Shape(8, 4, 300),
        Shape(32, 4, 300),
    ),
    "mariadb": (
        Shape(1, 1, 150),
        Shape(8, 2, 300),
        Shape(32, 2, 300),
        Shape(8, 4, 300),
        Shape(32, 4, 300),
    ),
}


def figures(names: Iterable[str] = tuple(SHAPES)) -> Iterator[Figure]:
    """Measure the server on the databases *names*."""
    for name in names:
        with (
            tempfile.TemporaryDirectory(dir="/var/tmp") as folder,
            _database(name, Path(folder)) as (options, own),
        ):
            yield from _of_database(name, Path(folder) / "server", options, own)


def _of_database(name: str, folder: Path, options: Options, own: int | None) -> Iterator[Figure]:
    raw = Raw(folder.parent)
    for workers in sorted({each.workers for each in SHAPES[name]}):
        arguments = ("--workers", str(workers)) if workers > 1 else ()
        with PrivateNetfw(folder, {**OPTIONS, **options}, arguments=arguments) as server:
            site = Site(server)
            rate(site, workers * 2, WARM_UP, own)
            for shape in SHAPES[name]:
                if shape.workers == workers:
                    yield _created(name, site, shape, own, raw=raw)
            if workers == 1:
                yield from _others(name, site, raw)
                if name == "sqlite":
                    site.fill(folder / "netfw.db")
                    when = f", {MANY:,} there"
                    yield _created(name, site, Shape(1, 1, 300), own, when, raw=raw)
                    yield _listed(name, site, raw, when)
            yield _idle(name, server, workers)


def _created(
    name: str, site: Site, shape: Shape, own: int | None, when: str = "", *, raw: Raw
) -> Figure:
    measured = rate(site, shape.clients, SECONDS, own)
    text = f"{name}: clients {shape.clients}, workers {shape.workers}{when}"
    return Figure(
        name=text,
        measured=-measured,
        target=-shape.rate,
        raw_seconds=raw.answer() + (raw.commit() if name == "sqlite" else 0.0),
        own_seconds=1 / measured,
        unit="/s",
    )


def rate(site: Site, clients: int, seconds: float, own: int | None) -> float:
    """Make ports for that long; return how many each second, and print what they cost."""
    server, database = tree_cpu(site.server.pid), 0.0 if own is None else tree_cpu(own)
    found = run(site.url, site.make, clients=clients, seconds=seconds)
    made = len(found.times)
    server = (tree_cpu(site.server.pid) - server) / made * 1000
    database = (0.0 if own is None else tree_cpu(own) - database) / made * 1000
    print(f"    {clients} clients: {found}, CPU {server:.2f} ms, database {database:.2f} ms each")
    if set(found.statuses) != {201}:
        raise RuntimeError(f"not all ports were made: {found}")
    return found.rate


def _others(name: str, site: Site, raw: Raw) -> Iterator[Figure]:
    ports = {"ports": [site.body] * BULK}
    took = min(timed(site.client, "POST", "/ports", ports, runs=1) for _ in range(3))
    yield milliseconds(f"{name}: {BULK:,} ports in one request", took, BULK_WITHIN)
    yield _listed(name, site, raw)


def _listed(name: str, site: Site, raw: Raw, when: str = "") -> Figure:
    took = timed(site.client, "GET", f"/ports?limit={BULK}", runs=9)
    return milliseconds(f"{name}: {BULK:,} ports listed{when}", took, LISTED_WITHIN, raw.read())


def _idle(name: str, server: PrivateNetfw, workers: int) -> Figure:
    time.sleep(2.0)
    before = tree_cpu(server.pid)
    time.sleep(IDLE_SECONDS)
    share = (tree_cpu(server.pid) - before) / IDLE_SECONDS
    return percent(f"{name}: CPU at rest, workers {workers}", share, IDLE_SHARE)


def cpu_speed() -> float:
    """Return the seconds of CPU that filling a dictionary takes, the best of some runs."""
    return min(_fill_dictionary() for _ in range(20))


def _fill_dictionary() -> float:
    filled: dict[int, int] = {}
    began = time.thread_time()
    for number in range(COUNTED):
        filled[number] = number * 2
    return time.thread_time() - began


def tree_cpu(pid: int) -> float:
    """Return the seconds of CPU of a process and of all below it."""
    seconds = 0.0
    waiting = [pid]
    while waiting:
        each = waiting.pop()
        try:
            seconds += process_cpu(each)
            for task in Path(f"/proc/{each}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except OSError:
            continue  # it ended meanwhile
    return seconds


@contextmanager
def _database(name: str, folder: Path) -> Iterator[tuple[Options, int | None]]:
    """Start the database of that name; yield the server's options and its process."""
    if name == "sqlite":
        yield {}, None
        return
    folder.chmod(0o755)
    place = folder / "database"
    place.mkdir()
    place.chmod(0o777)
    kind = PrivatePostgres if name == "postgresql" else PrivateMariadb
    database = kind(place, flushed=True).start()
    try:
        url = database.create("netfw")
        migration.upgrade(Database(url))
        yield {"database": {"connection": url}}, database.pid
    finally:
        database.stop()


def main(names: list[str]) -> int:
    """Print the figures; return 1 if one is short."""
    short = 0
    print(f"CPU: {COUNTED:,} items of a dictionary in {cpu_speed() * 1000:.1f} ms", flush=True)
    for figure in figures(names or tuple(SHAPES)):
        unit = figure.unit
        verdict = "ok" if figure.ok else "short"
        measured, target = abs(figure.measured), abs(figure.target)
        raw = f"  raw {figure.raw_seconds * 1000:.2f} ms" if figure.raw_seconds else ""
        print(
            f"{figure.name:<52} {measured:9.2f}{unit:<2}  target {target:7.1f}{unit:<2} {verdict}"
            f"{raw}",
            flush=True,
        )
        short += not figure.ok
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
