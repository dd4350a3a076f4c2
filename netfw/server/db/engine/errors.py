"""What the database's errors mean: the only place that knows their codes."""

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


class RetryTransaction(NetfwError):
    """Another transaction was faster; the whole of this one is tried again."""

    retryable = True


class Duplicate(Conflict):
    """A row of the same key exists."""


class ErrorKind(enum.Enum):
    """What to do about an error of the database."""

    AGAIN = "another transaction was in the way; try again"
    AWAY = "it does not answer"
    DUPLICATE = "a row of that key exists"
    REFERENCE = "a row refers to one that is not there, or would"
    BROKEN = "it will fail the same way again"


Failure = DBAPIError | DisconnectionError | PoolTimeout | sqlite3.Error
FAILURES: Final = (DBAPIError, DisconnectionError, PoolTimeout, sqlite3.Error)
"""What the database does; all else that SQLAlchemy raises is a fault of ours."""


def classify_error(error: Failure) -> ErrorKind:
    """What *error* means."""
    if isinstance(error, PoolTimeout | DisconnectionError):
        return ErrorKind.AWAY
    original = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return ErrorKind.AWAY
    code = _code(original)
    if _waits(code, original):
        return ErrorKind.AGAIN
    if _away(code, original):
        return ErrorKind.AWAY
    if isinstance(error, IntegrityError):
        return ErrorKind.DUPLICATE if _duplicate(code, original) else ErrorKind.REFERENCE
    return ErrorKind.BROKEN


def translate_error(error: Failure) -> BackendError:
    """*error* as netfw's callers know errors; without values, which may be secret."""
    original = error.orig if isinstance(error, DBAPIError) else error
    if _code(original) in _MISSING or "no such table" in str(original):
        return BackendBroken("the database lacks a table: run `netfw-db upgrade`, then start again")
    reason = _first_line(original)
    if classify_error(error) in (ErrorKind.AWAY, ErrorKind.AGAIN):
        return BackendUnavailable(f"the database does not answer: {reason}")
    return BackendBroken(f"the database refused: {reason}")


def _first_line(original: object) -> str:
    return (str(original).splitlines() or [type(original).__name__])[0][:500]


def _code(original: object) -> object:
    """SQLite's and MariaDB's numbers, PostgreSQL's five characters."""
    if isinstance(original, sqlite3.Error):
        extended = getattr(original, "sqlite_errorcode", None)
        return None if extended is None else extended & 0xFF
    arguments = getattr(original, "args", ())
    if arguments and isinstance(arguments[0], int):
        return arguments[0]
    return getattr(original, "sqlstate", None)


def _waits(code: object, original: object) -> bool:
    if isinstance(original, sqlite3.Error):
        return code in _SQLITE_WAITS
    return code in _POSTGRES_WAITS or code in _MARIADB_WAITS


def _away(code: object, original: object) -> bool:
    if isinstance(original, sqlite3.Error):
        return code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL)
    if isinstance(code, str):
        return code.startswith(_POSTGRES_AWAY)
    if code is None:  # psycopg could not connect, or lost the connection: there is no code
        return type(original).__name__ == "OperationalError"
    return code in _MARIADB_AWAY


def _duplicate(code: object, original: object) -> bool:
    if isinstance(original, sqlite3.Error):
        return str(original).startswith("UNIQUE")
    return code in _DUPLICATES
