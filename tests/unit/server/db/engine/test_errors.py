"""What the errors of three databases mean."""

from __future__ import annotations

import sqlite3

import psycopg
import pymysql
import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from netfw.errors import BackendBroken, BackendUnavailable
from netfw.server.db.engine.errors import ErrorKind, classify_error, translate_error


def sqlite(code: int, text: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


def wrapped(original: Exception, kind: type[DBAPIError] = OperationalError) -> DBAPIError:
    return kind("SELECT secret", {"password": "secret"}, original)


ERRORS = {
    "SQLite busy": (wrapped(sqlite(sqlite3.SQLITE_BUSY, "locked")), ErrorKind.RETRY),
    "SQLite busy, old snapshot": (
        wrapped(sqlite(sqlite3.SQLITE_BUSY_SNAPSHOT, "x")),
        ErrorKind.RETRY,
    ),
    "SQLite busy, while connecting": (sqlite(sqlite3.SQLITE_BUSY, "locked"), ErrorKind.RETRY),
    "SQLite no such file": (wrapped(sqlite(sqlite3.SQLITE_CANTOPEN, "x")), ErrorKind.UNAVAILABLE),
    "SQLite disk full": (wrapped(sqlite(sqlite3.SQLITE_FULL, "x")), ErrorKind.FULL),
    "SQLite unique": (
        wrapped(sqlite3.IntegrityError("UNIQUE constraint failed: a.b"), IntegrityError),
        ErrorKind.DUPLICATE,
    ),
    "SQLite reference": (
        wrapped(sqlite3.IntegrityError("FOREIGN KEY constraint failed"), IntegrityError),
        ErrorKind.REFERENCE,
    ),
    "PostgreSQL deadlock": (wrapped(psycopg.errors.DeadlockDetected()), ErrorKind.RETRY),
    "PostgreSQL serialization": (wrapped(psycopg.errors.SerializationFailure()), ErrorKind.RETRY),
    "PostgreSQL lock timeout": (wrapped(psycopg.errors.LockNotAvailable()), ErrorKind.RETRY),
    "PostgreSQL shutting down": (wrapped(psycopg.errors.AdminShutdown()), ErrorKind.UNAVAILABLE),
    "PostgreSQL disk full": (wrapped(psycopg.errors.DiskFull()), ErrorKind.FULL),
    "PostgreSQL slow to accept": (
        wrapped(psycopg.errors.ConnectionTimeout("x")),
        ErrorKind.UNAVAILABLE,
    ),
    "PostgreSQL too many": (wrapped(psycopg.errors.TooManyConnections()), ErrorKind.UNAVAILABLE),
    "PostgreSQL refuses to connect": (
        wrapped(psycopg.OperationalError("refused")),
        ErrorKind.UNAVAILABLE,
    ),
    "PostgreSQL unique": (
        wrapped(psycopg.errors.UniqueViolation(), IntegrityError),
        ErrorKind.DUPLICATE,
    ),
    "PostgreSQL reference": (
        wrapped(psycopg.errors.ForeignKeyViolation(), IntegrityError),
        ErrorKind.REFERENCE,
    ),
    "PostgreSQL syntax": (
        wrapped(psycopg.errors.SyntaxError(), ProgrammingError),
        ErrorKind.BROKEN,
    ),
    "MariaDB deadlock": (wrapped(pymysql.OperationalError(1213, "x")), ErrorKind.RETRY),
    "MariaDB lock timeout": (wrapped(pymysql.OperationalError(1205, "x")), ErrorKind.RETRY),
    "MariaDB lost": (wrapped(pymysql.OperationalError(2013, "x")), ErrorKind.UNAVAILABLE),
    "MariaDB refuses to connect": (
        wrapped(pymysql.OperationalError(2003, "x")),
        ErrorKind.UNAVAILABLE,
    ),
    "MariaDB unique": (
        wrapped(pymysql.IntegrityError(1062, "x"), IntegrityError),
        ErrorKind.DUPLICATE,
    ),
    "MariaDB reference": (
        wrapped(pymysql.IntegrityError(1452, "x"), IntegrityError),
        ErrorKind.REFERENCE,
    ),
    "MariaDB syntax": (
        wrapped(pymysql.ProgrammingError(1064, "x"), ProgrammingError),
        ErrorKind.BROKEN,
    ),
    "no connection is free": (PoolTimeout(), ErrorKind.UNAVAILABLE),
}


@pytest.mark.parametrize(("error", "meaning"), ERRORS.values(), ids=ERRORS.keys())
def test_an_error_is_known_by_its_code(error: DBAPIError, meaning: ErrorKind) -> None:
    assert classify_error(error) is meaning


def test_what_a_caller_gets_says_what_to_do_and_no_values() -> None:
    away, _ = ERRORS["MariaDB lost"]
    assert isinstance(translate_error(away), BackendUnavailable)
    assert "secret" not in str(translate_error(away))
    broken, _ = ERRORS["PostgreSQL syntax"]
    assert isinstance(translate_error(broken), BackendBroken)
    for original in (
        sqlite3.OperationalError("no such table: ports"),
        psycopg.errors.UndefinedTable(),
        pymysql.ProgrammingError(1146, "Table 'x.ports' doesn't exist"),
    ):
        assert "netfw-db upgrade" in str(translate_error(wrapped(original)))
