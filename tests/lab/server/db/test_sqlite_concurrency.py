"""Several processes that open and migrate one SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

from netfw.server.db import Database, migration
from netfw.server.db.engine.engines import Limits


def test_concurrent_upgrades_of_a_file_wait_longer_than_for_a_lock(
    tmp_path: Path, open_database: Callable[..., Database]
) -> None:
    limits = Limits(lock_timeout=0.01)
    databases = [open_database(f"sqlite:///{tmp_path}/netfw.db", limits) for _ in range(3)]
    for database in databases:  # connected, one after the other
        assert migration.current(database) is None
        database.writing.connect().close()
    with ThreadPoolExecutor(len(databases)) as pool:
        assert list(pool.map(migration.upgrade, databases)) == [None] * len(databases)
    assert migration.differences(databases[0]) == ()


def test_new_file_is_opened_while_another_process_writes_to_it(
    tmp_path: Path, open_database: Callable[..., Database]
) -> None:
    path = tmp_path / "netfw.db"
    database = open_database(f"sqlite:///{path}", Limits(lock_timeout=60))
    with ThreadPoolExecutor(1) as pool, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        version = pool.submit(migration.current, database)
        assert not wait([version], 0.5).done
        other.rollback()
        assert version.result() is None
