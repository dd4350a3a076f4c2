"""A database that is slow, gone or busy; quotas; the command."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from netfw.cli.commands.db import main
from netfw.errors import BackendUnavailable, Conflict
from netfw.server.db import Database, Limits, Transaction, migration
from netfw.server.db.allocation.quotas import UNLIMITED, Usage
from tests.lab.databases import BACKENDS, SERVER_PARAMETERS, DatabaseServers, EmptyDatabase
from tests.lab.server.db.processes import at_once, use_quota
from tests.lab.server.db.samples import network, store

NETFW_DB = Path(sys.executable).with_name("netfw-db")


def test_lock_timeout_is_an_unavailable_database(
    url: str, open_database: Callable[..., Database]
) -> None:
    limits = Limits(lock_timeout=0.2, connect_timeout=60)
    impatient = open_database(url, limits, attempts=1000)
    other = open_database(url)
    store(other, network())
    held, release = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> None:
        tx.journal.write()
        held.set()
        release.wait(30)

    holder = threading.Thread(target=other.transaction, args=(hold,))
    holder.start()
    assert held.wait(30)
    try:
        with pytest.raises(BackendUnavailable):
            impatient.transaction(lambda tx: tx.journal.write())
        assert impatient.read(lambda view: view.journal.cursor()).seq == 1
    finally:
        release.set()
        holder.join()
    assert impatient.transaction(lambda tx: tx.journal.write()) == 3


@pytest.mark.filterwarnings("ignore:.*socket.socket:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("empty_database", BACKENDS[1:], indirect=True)
def test_a_server_that_comes_back_is_used_again(
    empty_database: EmptyDatabase,
    database_servers: DatabaseServers,
    open_database: Callable[..., Database],
) -> None:
    database = open_database(empty_database.url, Limits(lock_timeout=2, connect_timeout=60))
    migration.upgrade(database)
    store(database, network())
    server = (
        database_servers.postgres
        if empty_database.backend == "postgresql"
        else database_servers.mariadb
    )
    server.kill()
    try:
        with pytest.raises(BackendUnavailable):
            database.read(lambda view: view.journal.cursor())
        with pytest.raises(BackendUnavailable):
            database.transaction(lambda tx: tx.resources.insert(network(2)))
        gc.collect()  # PyMySQL leaves a socket to the collector when it cannot connect
    finally:
        server.start()
    store(database, network(3))
    assert database.read(lambda view: view.journal.cursor()).seq == 2


@pytest.mark.parametrize("empty_database", SERVER_PARAMETERS, indirect=True)
def test_connections_of_a_server_that_restarted_are_not_used(
    empty_database: EmptyDatabase,
    database_servers: DatabaseServers,
    open_database: Callable[..., Database],
) -> None:
    database, users = open_database(empty_database.url), 4
    migration.upgrade(database)
    all_connected = threading.Barrier(users)

    def connect_at_once(_: object) -> None:
        database.read(lambda view: (view.journal.cursor(), all_connected.wait(30)))
        database.transaction(lambda tx: (tx.journal.cursor(), all_connected.wait(30)))

    with ThreadPoolExecutor(users) as pool:
        list(pool.map(connect_at_once, range(users)))
    server = (
        database_servers.postgres
        if empty_database.backend == "postgresql"
        else database_servers.mariadb
    )
    server.kill()
    server.start()
    assert database.read(lambda view: view.journal.cursor()).seq == 0
    store(database, network())
    assert database.read(lambda view: view.journal.cursor()).seq == 1


@pytest.mark.spec("API-06")
def test_a_quota_holds_however_many_ask_at_once(url: str, database: Database) -> None:
    granted = sum(at_once(4, use_quota, url, 25))
    assert granted == 25
    database.transaction(lambda tx: tx.quotas.use("p", "port", -5, 25))
    with pytest.raises(Conflict, match="has 20 of 25 port, and requests 6 more"):
        database.transaction(lambda tx: tx.quotas.use("p", "port", 6, 25))
    database.transaction(lambda tx: tx.quotas.set_limit("p", "port", UNLIMITED))
    database.transaction(lambda tx: tx.quotas.use("p", "port", 100, 25))
    database.transaction(lambda tx: tx.quotas.set_limit("q", "network", 3))
    database.transaction(lambda tx: tx.quotas.use("r", "network", 1, 3))
    assert database.read(lambda view: view.quotas.all()) == {
        "p": {"port": Usage(120, UNLIMITED)},
        "q": {"network": Usage(0, 3)},
    }
    database.transaction(lambda tx: tx.quotas.set_limit("q", "network", None))
    assert "q" not in database.read(lambda view: view.quotas.all())


def test_the_command_makes_checks_and_removes_the_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = tmp_path / "netfw.conf"
    conf.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")

    def run(*words: str, status: int = 0) -> str:
        assert main(["--config-file", str(conf), *words]) == status
        output = capsys.readouterr()
        return output.out + output.err

    assert "there is no such file" in run("current", status=2)
    (tmp_path / "netfw.db").touch()
    assert run("current").startswith("no tables")
    assert "netfw-db upgrade" in run("check", status=1)
    assert run("upgrade") == f"version {migration.newest()}\n"
    assert "as they should be" in run("check")
    versions = f"; the versions of this release are 0001 to {migration.newest()}, and base for none"
    for command in ("upgrade", "downgrade"):
        assert run(command, "9999", status=1).rstrip().endswith(f"'9999'{versions}")
    assert run("upgrade", migration.newest()) == f"version {migration.newest()}\n"
    for older in ("0003", "base"):
        assert run("upgrade", older, status=1) == (
            f"netfw-db: version: the database has version {migration.newest()}, which is newer "
            f"than {older}; run `netfw-db downgrade {older}` to bring it back\n"
        )
    run("mark-restored")
    run("downgrade", "base")
    conf.write_text("[database]\nconnection = postgresql://netfw:secret@/netfw?host=/nowhere\n")
    output = run("current", status=1)
    assert "does not answer" in output
    assert "[database] connection is postgresql+psycopg://netfw:***@/netfw?host=" in output
    assert "secret" not in output
    conf.write_text("[database]\nconnection = oracle://netfw:secret@db/netfw\n")
    output = run("current", status=2)
    assert "oracle is not known" in output
    assert "secret" not in output


def test_the_command_is_installed() -> None:
    done = subprocess.run([NETFW_DB, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "upgrade" in done.stdout
