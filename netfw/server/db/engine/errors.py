"""Classification of database errors: the only module with their codes."""

from __future__ import annotations

import enum
import sqlite3
from typing import Final

from sqlalchemy.exc import DBAPIError, DisconnectionError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from netfw.errors import BackendBroken, BackendError, BackendUnavailable, Conflict, NetfwError

_SQLITE_WAITS = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_POSTGRES_WAITS = frozenset({"40001", "40P01", "55P03"})
_POSTGRES_AWAY = ("08", "53", "57P")
_MARIADB_WAITS = frozenset({1205, 1213, 1020, 1613})
_MARIADB_AWAY = frozenset({1040, 1053, 1077, 1129, 1203, 2002, 2003, 2006, 2013, 2055})
_MISSING = frozenset({"42P01", "3F000", 1146})
_DUPLICATES = frozenset({"23505", 1062})
_FULL = frozenset({"53100", 1021, 1114})
"""PostgreSQL and MariaDB: no space is left for a table or the log."""


class RetryTransaction(NetfwError):
    """A conflict with another transaction; this one is retried from its start."""

    retryable = True


class Duplicate(Conflict):
    """A row with the same key exists."""

    api_type = "Conflict"


class DatabaseFull(BackendUnavailable):
    """The disk of the database is full; nothing was changed."""


class ErrorKind(enum.Enum):
    """The classes of database errors, by what the caller should do."""

    RETRY = "conflict with another transaction; retry"
    UNAVAILABLE = "the database does not answer"
    FULL = "no space is left on its disk"
    DUPLICATE = "a row with that key exists"
    REFERENCE = "a foreign key is violated"
    BROKEN = "permanent error"


Failure = DBAPIError | DisconnectionError | PoolTimeout | sqlite3.Error
FAILURES: Final = (DBAPIError, DisconnectionError, PoolTimeout, sqlite3.Error)
"""Errors of the database; every other error of SQLAlchemy is a bug in netfw."""


def classify_error(error: Failure) -> ErrorKind:
    """Return the class of *error*."""
    is_lost = isinstance(error, DBAPIError) and error.connection_invalidated
    if is_lost or isinstance(error, PoolTimeout | DisconnectionError):
        return ErrorKind.UNAVAILABLE
    original = error.orig if isinstance(error, DBAPIError) else error
    code = _code(original)
    if _is_conflict(code, original):
        return ErrorKind.RETRY
    if _is_full(code, original):
        return ErrorKind.FULL
    if _is_unavailable(code, original):
        return ErrorKind.UNAVAILABLE
    if isinstance(error, IntegrityError):
        return ErrorKind.DUPLICATE if _is_duplicate(code, original) else ErrorKind.REFERENCE
    return ErrorKind.BROKEN


def translate_error(error: Failure) -> BackendError:
    """Return *error* as an error of netfw, without values, which may be secret."""
    original = error.orig if isinstance(error, DBAPIError) else error
    if _code(original) in _MISSING or "no such table" in str(original):
        return BackendBroken("the database lacks a table: run `netfw-db upgrade`, then start again")
    reason, kind = _first_line(original), classify_error(error)
    if kind is ErrorKind.FULL:
        return DatabaseFull(f"the disk of the database is full ({reason}): free space on it")
    if kind in (ErrorKind.UNAVAILABLE, ErrorKind.RETRY):
        return BackendUnavailable(f"the database does not answer: {reason}")
    return BackendBroken(f"the database refused: {reason}")


def _first_line(original: object) -> str:
    return (str(original).splitlines() or [type(original).__name__])[0][:500]


def _code(original: object) -> object:
    """Return the error number of SQLite or MariaDB, or the SQLSTATE of PostgreSQL."""
    if isinstance(original, sqlite3.Error):
        extended = getattr(original, "sqlite_errorcode", None)
        return None if extended is None else extended & 0xFF
    arguments = getattr(original, "args", ())
    if arguments and isinstance(arguments[0], int):
        return arguments[0]
    return getattr(original, "sqlstate", None)


def _is_conflict(code: object, original: object) -> bool:
    if isinstance(original, sqlite3.Error):
        return code in _SQLITE_WAITS
    return code in _POSTGRES_WAITS or code in _MARIADB_WAITS


def _is_full(code: object, original: object) -> bool:
    if isinstance(original, sqlite3.Error):
        return code == sqlite3.SQLITE_FULL
    return code in _FULL


def _is_unavailable(code: object, original: object) -> bool:
    if isinstance(original, sqlite3.Error):
        return code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR)
    if isinstance(code, str):
        return code.startswith(_POSTGRES_AWAY)
    if code is None:  # psycopg could not connect, or lost the connection: there is no code
        return any(each.__name__ == "OperationalError" for each in type(original).__mro__)
    return code in _MARIADB_AWAY


def _is_duplicate(code: object, original: object) -> bool:
    if isinstance(original, sqlite3.Error):
        return str(original).startswith("UNIQUE")
    return code in _DUPLICATES
