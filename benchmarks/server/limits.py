"""What surrounds the figures of requests: raw limits, statements, memory, and too many clients."""

from __future__ import annotations

import multiprocessing
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from uuid import uuid4

from sqlalchemy import Connection, Engine, event

from benchmarks.figure import Figure, megabytes
from benchmarks.load import Client, getter, port_maker, prepare_network, run
from benchmarks.process_usage import resident
from netfw.cli.runtime.daemon import DaemonControl
from netfw.cli.runtime.service_manager import SdNotifier
from netfw.cli.server.components import PROGRAM, server_groups
from netfw.cli.server.main import _serve
from netfw.conf.loader import load_config
from netfw.http.listen_sockets import listen_unix
from netfw.http.server import HttpServer
from netfw.testing.lab.services.server import PrivateNetfw

CROWD = 400
ROWS = 1_000
BODY = b"x" * 1_100


class Raw:
    """What the machine does without netfw."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._connection = sqlite3.connect(folder / "raw.db", isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            self._connection.execute(f"PRAGMA {pragma}").close()
        self._connection.execute("CREATE TABLE ports (id TEXT PRIMARY KEY, body TEXT)")
        for _ in range(ROWS):
            self._write()

    def commit(self) -> float:
        """Insert one row as long as a port, in SQLite, and flush it."""
        return _median(200, self._write)

    def read(self) -> float:
        """Read a thousand such rows."""
        rows = f"SELECT * FROM ports LIMIT {ROWS}"
        return _median(9, lambda: self._connection.execute(rows).fetchall())

    def answer(self) -> float:
        """Return the seconds of a constant answer by the same HTTP server."""
        path = self._folder / f"{uuid4().hex[:8]}.sock"
        process = multiprocessing.get_context("fork").Process(target=_constant, args=(path,))
        process.start()
        try:
            while not path.exists():
                time.sleep(0.01)
            return median(run(f"unix://{path}", getter("/"), clients=1, seconds=1.0).times)
        finally:
            process.kill()
            process.join()

    def _write(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        values = (str(uuid4()), BODY.decode())
        self._connection.execute("INSERT INTO ports VALUES (?, ?)", values)
        self._connection.execute("COMMIT")


def _constant(path: Path) -> None:
    def app(environ: object, start: Callable[..., object]) -> list[bytes]:
        start("200 OK", [("Content-Length", str(len(BODY)))])
        return [BODY]

    HttpServer(app, listen_unix(path)).start()
    time.sleep(600)


def statements(folder: Path) -> Figure:
    """Count the statements for one port, made through the API of a server in this process."""
    server = PrivateNetfw(folder / "counted")
    server.directory.mkdir()
    (server.directory / "server.conf").write_text(server.configuration())
    argv = ["--config-file", str(server.directory / "server.conf")]
    conf = load_config(PROGRAM, argv, server_groups(argv)).conf
    control = DaemonControl(SdNotifier())
    thread = threading.Thread(target=_serve, args=(conf, control, None))
    thread.start()
    while not server.ready():
        time.sleep(0.05)
    client = Client(f"unix://{server.socket}")
    request = port_maker(prepare_network(client))(client, 0)
    client.send(request)
    seen: list[str] = []

    def note(connection: Connection, cursor: object, statement: str, *_: object) -> None:
        if threading.current_thread().name != "commits":
            seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    began = time.perf_counter()
    status, content = client.send(request)
    took = time.perf_counter() - began
    event.remove(Engine, "before_cursor_execute", note)
    client.close()
    control.stop.set()
    thread.join()
    if status != 201:
        raise RuntimeError(f"the port is not made: {status} {content!r}")
    return Figure(
        name="server: statements of a port made by a request",
        measured=len(seen),
        target=14,
        raw_seconds=0.0,
        own_seconds=took,
        unit="",
    )


def overload(client: Client, url: str, network: str, server: int) -> Figure:
    """Measure how much a server grows while hundreds of clients send a request at once."""
    before = resident(server)
    request = port_maker(network)(client, 0)
    for _ in range(3):
        _crowd(url, request)
    name = f"server: growth by {CROWD} clients at once, 201 or 503 all"
    return megabytes(name, max(0.0, resident(server) - before), 10.0)


def _crowd(url: str, request: bytes) -> None:
    sockets = []
    for _ in range(CROWD):
        each = socket.socket(socket.AF_UNIX)
        each.settimeout(60)
        each.connect(url.removeprefix("unix://"))
        sockets.append(each)
    began = time.monotonic()
    for each in sockets:
        each.sendall(request)
    served = refused = 0
    for each in sockets:
        answer = each.recv(65_536)
        status = int(answer.split()[1])
        served += status == 201
        refused += status == 503 and b"Retry-After: " in answer
        each.close()
    print(
        f"    {CROWD} clients at once: {served} served, {refused} told to come again, "
        f"in {time.monotonic() - began:.1f} s"
    )
    if served + refused != CROWD or not served or not refused:
        raise RuntimeError("not everybody was served or told to come again")


def _median(runs: int, work: Callable[[], object]) -> float:
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return median(times)
