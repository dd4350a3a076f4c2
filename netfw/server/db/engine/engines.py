"""Engines: database URLs, the SQLite file, and connections for writing and for reading.

SQLite: one writer at a time, which takes the lock when it begins; readers see the last commit.
PostgreSQL and MariaDB: a writer sees what others committed before each statement, and locks the
rows that it decides by; a reader sees one snapshot.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from attrs import frozen
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from netfw.errors import ConfigError
from netfw.server.db.engine.prepared import execute_text

DRIVERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sqlite": "sqlite+pysqlite",
        "postgresql": "postgresql+psycopg",
        "mariadb": "mariadb+pymysql",
        "mysql": "mariadb+pymysql",
    }
)
_FORMS = "sqlite:///PATH, postgresql://USER:PASSWORD@HOST/NAME or mariadb://..."


def database_url(text: str) -> URL:
    """Parse the URL *text*, and set the driver that netfw uses.

    :raises ConfigError: the URL is not usable.  The message never has a password.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigError(f"[database] connection: cannot be read; write {_FORMS}") from None
    backend = url.get_backend_name()
    if backend not in DRIVERS:
        raise ConfigError(f"[database] connection: {backend} is not known; write {_FORMS}")
    if backend == "sqlite" and url.database in (None, "", ":memory:"):
        raise ConfigError(
            "[database] connection: SQLite needs a file (sqlite:////var/lib/netfw/netfw.db, with "
            "four slashes): a database in memory is another one for every connection"
        )
    if backend != "sqlite" and not url.database:
        raise ConfigError("[database] connection: names no database: end it with /NAME")
    return url.set(drivername=DRIVERS[backend])


def default_url(state_path: str) -> URL:
    """Return the URL of the default SQLite file."""
    return URL.create(DRIVERS["sqlite"], database=f"{state_path}/netfw.db")


DIRECTORY_MODE, FILE_MODE = 0o751, 0o640
"""The directory is traversable: dnsmasq runs as ``nobody`` and reads files below state_path."""


def create_sqlite_file(url: URL, named_by: str) -> None:
    """Create the SQLite file of *url* with mode 0640, and its directory, if they are missing.

    The directory above must exist: a path with more than one missing is probably misspelt. An
    existing file keeps its mode.  SQLite gives its further files the mode of the first.

    :raises ConfigError: this user cannot create or write it; names the option *named_by*.
    """
    path = Path(url.database or "")
    if "uri" in url.query:
        return  # a URI with options, which only SQLite parses
    try:
        path.parent.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
    except OSError as exc:
        if isinstance(exc, FileNotFoundError) and not path.parent.exists():
            raise ConfigError(
                f"the database cannot be {path}: there is no directory {path.parent.parent}; make "
                f"it, or change {named_by}"
            ) from exc
        where = f"{exc.filename}: " if exc.filename not in (None, path, str(path)) else ""
        raise ConfigError(
            f"the database cannot be {path}: {where}{exc.strerror}; change {named_by}, or "
            "whose the directory is"
        ) from exc
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigError(
            f"the database cannot be {path}: SQLite needs to write to its directory, and user "
            f"{os.geteuid()} may not; change {named_by}, or whose the directory is"
        )


def require_sqlite_file(url: URL, named_by: str) -> None:
    """Refuse a missing SQLite file, which SQLite itself would create.

    :raises ConfigError: there is no such file; names the option *named_by*.
    """
    path = Path(url.database or "")
    if "uri" not in url.query and not path.exists():
        raise ConfigError(
            f"{path}: there is no such file; `netfw-db upgrade` creates it, or change {named_by}"
        )


_PRAGMAS = ("synchronous = FULL", "foreign_keys = ON", "cache_size = -4000")


_COMMITTED = "netfw.committed"
WAL_PAUSE = 0.01
"""Seconds between two attempts to switch a file to a write-ahead log."""
READ_STATEMENTS = 32
"""Statements that a reading connection of SQLite keeps: one of a list with a thousand values takes
300 kB, and each number of values is another one."""


@frozen(kw_only=True)
class Limits:
    """Limits of one process on connections, lock time and concurrent writers."""

    connections: int = 10
    lock_timeout: float = 10.0
    connect_timeout: int = 10
    """Seconds in which a server must accept a connection."""
    writers: int = 12
    """Concurrent transactions, waiting ones included; fewer than the threads that serve requests,
    so that reads and probes are served while writes block."""


def writing_engine(url: URL, limits: Limits) -> Engine:
    """Return the engine of transactions that write.

    On SQLite a process has one such connection: its threads queue in order, instead of polling for
    the lock.
    """
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, limits, "BEGIN IMMEDIATE", connections=1, statements=128)
    return _server(url, limits, "READ COMMITTED")


def reading_engine(url: URL, limits: Limits) -> Engine:
    """Return the engine of read snapshots, which take no locks."""
    if url.get_backend_name() == "sqlite":
        return _sqlite(
            url, limits, "BEGIN", connections=limits.connections, statements=READ_STATEMENTS
        )
    return _server(url, limits, "REPEATABLE READ")


def _sqlite(url: URL, limits: Limits, begin: str, *, connections: int, statements: int) -> Engine:
    engine = create_engine(
        url,
        connect_args={
            "timeout": limits.lock_timeout,
            "check_same_thread": False,
            "cached_statements": statements,
        },
        pool_size=connections,
        max_overflow=0,
        pool_timeout=limits.lock_timeout,
    )

    def prepare(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # the driver starts no transactions itself
        _use_wal(connection, limits.lock_timeout)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}").close()

    def start(connection: Connection) -> None:
        execute_text(connection, begin).close()

    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", start)
    return engine


def _use_wal(connection: sqlite3.Connection, seconds: float) -> None:
    """Switch the file to a write-ahead log; wait for *seconds* at most while others write to it.

    SQLite does not wait here by itself: it refuses at once a second process that opens a new file.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").close()
            return
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(WAL_PAUSE)


def _server(url: URL, limits: Limits, isolation: Any) -> Engine:
    milliseconds, seconds = int(limits.lock_timeout * 1000), max(1, int(limits.lock_timeout))
    if url.get_backend_name() == "postgresql":
        arguments: dict[str, Any] = {
            "options": f"-c lock_timeout={milliseconds}",
            "connect_timeout": limits.connect_timeout,
            "prepare_threshold": None,  # psycopg would deallocate those of others in a rollback
        }
    else:
        arguments = {
            "charset": "utf8mb4",
            "connect_timeout": limits.connect_timeout,
            "init_command": f"SET SESSION innodb_lock_wait_timeout = {seconds}, "
            "SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
        }
        if "unix_socket" in url.query and not any(name.startswith("ssl") for name in url.query):
            arguments["ssl_disabled"] = True  # PyMySQL loads all CA certificates per connection
    engine = create_engine(
        url,
        isolation_level=isolation,
        connect_args=arguments,
        pool_size=limits.connections,
        max_overflow=0,
        pool_timeout=limits.lock_timeout,
        pool_recycle=1800,
        pool_reset_on_return=None,
    )
    event.listen(engine, "reset", _roll_back)
    return engine


def note_commit(connection: Connection) -> None:
    """Note that a connection ends with a commit: the rollback of MariaDB is a round trip."""
    connection.connection.info[_COMMITTED] = True


def _roll_back(connection: Any, record: Any, _state: object) -> None:
    """End the transaction of a returned connection; a detached one has no *record*."""
    if record is None or not record.info.pop(_COMMITTED, False):
        connection.rollback()
