"""Connections: for writing, and for reading one moment of the database without a lock.

SQLite: one writer at a time, which takes the lock when it begins; readers see the last commit.
PostgreSQL and MariaDB: writers see what others committed before each statement, and lock the rows
they decide by; readers see one moment.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from attrs import frozen
from sqlalchemy import URL, Connection, Engine, create_engine, event

_PRAGMAS = ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "cache_size = -4000")


@frozen(kw_only=True)
class Limits:
    """How much of the database one process uses, and how patiently."""

    connections: int = 10
    lock_timeout: float = 10.0
    writers: int = 12
    """Transactions at a time, those that wait for others included; fewer than threads that serve
    requests, so that reading and probes get on while the database takes nothing."""


def writing_engine(url: URL, limits: Limits) -> Engine:
    """Connections for transactions that write.

    One process has one of them on SQLite: its threads then queue in order, instead of asking for
    the lock again and again.
    """
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, limits, "BEGIN IMMEDIATE", connections=1)
    return _server(url, limits, "READ COMMITTED")


def reading_engine(url: URL, limits: Limits) -> Engine:
    """Connections for transactions that see one moment and lock nothing."""
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, limits, "BEGIN", connections=limits.connections)
    return _server(url, limits, "REPEATABLE READ")


def _sqlite(url: URL, limits: Limits, begin: str, *, connections: int) -> Engine:
    engine = create_engine(
        url,
        connect_args={"timeout": limits.lock_timeout, "check_same_thread": False},
        pool_size=connections,
        max_overflow=0,
        pool_timeout=limits.lock_timeout,
    )

    def prepare(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # the driver begins nothing of its own
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}").close()

    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", start)
    return engine


def _server(url: URL, limits: Limits, isolation: Any) -> Engine:
    milliseconds, seconds = int(limits.lock_timeout * 1000), max(1, int(limits.lock_timeout))
    if url.get_backend_name() == "postgresql":
        arguments: dict[str, Any] = {
            "options": f"-c lock_timeout={milliseconds}",
            "connect_timeout": seconds,
        }
    else:
        arguments = {
            "charset": "utf8mb4",
            "connect_timeout": seconds,
            "init_command": f"SET SESSION innodb_lock_wait_timeout = {seconds}, "
            "SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
        }
    return create_engine(
        url,
        isolation_level=isolation,
        connect_args=arguments,
        pool_size=limits.connections,
        max_overflow=0,
        pool_timeout=limits.lock_timeout,
        pool_recycle=1800,
    )
