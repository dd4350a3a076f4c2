"""Private database servers of tests."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pymysql
import pytest

from netfw.testing.lab.services.databases import PrivateMariadb, PrivatePostgres

BUSY = "DO $$ BEGIN FOR n IN 1..2000000000 LOOP PERFORM 1; END LOOP; END $$"


@pytest.fixture
def postgres() -> Iterator[PrivatePostgres]:
    directory = Path(tempfile.mkdtemp(prefix="postgres-"))
    made = PrivatePostgres(directory)
    try:
        yield made.start()
    finally:
        made.stop()
        shutil.rmtree(directory, ignore_errors=True)


def ask(connection: psycopg.Connection) -> None:
    with suppress(psycopg.OperationalError):
        connection.execute(BUSY)


def test_killed_database_answers_no_client(postgres: PrivatePostgres) -> None:
    # Each connection has a process of its own there, which would go on for a while.
    url = postgres.create("busy")
    asking, watching = (psycopg.connect(url, autocommit=True) for _ in range(2))
    client = threading.Thread(target=lambda: ask(asking), daemon=True)
    client.start()
    state = "SELECT state FROM pg_stat_activity WHERE pid = %s"
    deadline = time.monotonic() + 30
    while watching.execute(state, (asking.info.backend_pid,)).fetchone() != ("active",):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    postgres.kill()
    with pytest.raises(psycopg.OperationalError):
        watching.execute("SELECT 1")
    client.join(60)
    assert not client.is_alive(), "its process goes on"
    postgres.start()
    with psycopg.connect(url) as again:
        assert again.execute("SELECT 1").fetchone() == (1,)


def test_temporary_tables_of_mariadb_are_in_its_own_directory(tmp_path: Path) -> None:
    # They are named by the process id: two sandboxes with one ``/tmp`` remove each other's.
    made = PrivateMariadb(tmp_path / "m")
    made.directory.mkdir()
    try:
        made.start()
        socket = str(made.directory / "s.sock")
        with (
            pymysql.connect(unix_socket=socket, user="root", ssl_disabled=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SELECT @@tmpdir")
            assert cursor.fetchone() == (str(made.directory),)
    finally:
        made.stop()
