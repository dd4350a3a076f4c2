"""Prepared statements of PostgreSQL by libpq, without the cursors of psycopg.

A cursor of psycopg takes several times as long for a statement as libpq, which it is made upon:
it adapts values and rows of any type.  Statements of the hot path have text, numbers and flags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from psycopg import IsolationLevel, OperationalError
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from sqlalchemy.pool import PoolProxiedConnection

BEGIN: Final[Mapping[IsolationLevel | None, bytes]] = {
    None: b"BEGIN",
    IsolationLevel.READ_COMMITTED: b"BEGIN ISOLATION LEVEL READ COMMITTED",
    IsolationLevel.REPEATABLE_READ: b"BEGIN ISOLATION LEVEL REPEATABLE READ",
}
MAX_PREPARED: Final = 256
"""Statements that a connection keeps prepared."""
_NAMES: Final = "netfw.prepared"
_DONE: Final = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)


def _flag(data: bytes) -> bool:
    return data == b"t"


_LOADERS: Final[Mapping[int, Callable[[bytes], object]]] = {
    16: _flag,
    20: int,
    21: int,
    23: int,
    25: bytes.decode,
    1043: bytes.decode,
    2278: bytes.decode,
}
"""Functions that read a value, by the number of its type: flags, numbers, text, nothing."""


class LibpqCursor:
    """The result of one statement, as far as a DBAPI cursor is needed for it."""

    def __init__(self, connection: PoolProxiedConnection) -> None:
        self._connection = connection
        self._driver: Any = connection.driver_connection
        self._result: Any = None

    def execute(self, sql: str, values: Sequence[object]) -> None:
        """Execute a statement with values for its numbers, in a transaction.

        :raises psycopg.Error: the database refuses it, or does not answer.
        """
        connection = self._driver.pgconn
        if connection.transaction_status == TransactionStatus.IDLE:
            self._check(connection, connection.exec_(BEGIN[self._driver.isolation_level]))
        data = [None if each is None else _dump(each) for each in values]
        names = self._connection.info.setdefault(_NAMES, {})
        name = names.get(sql)
        if name is None:
            if len(names) >= MAX_PREPARED:
                self._result = connection.exec_params(sql.encode(), data)
                self._check(connection, self._result)
                return
            name = b"netfw_%d" % len(names)
            self._check(connection, connection.prepare(name, sql.encode()))
            names[sql] = name
        self._result = connection.exec_prepared(name, data)
        self._check(connection, self._result)

    @property
    def rowcount(self) -> int:
        """The number of changed or returned rows."""
        return self._result.command_tuples or 0

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows."""
        result = self._result
        columns = range(result.nfields)
        loaders = [_LOADERS[result.ftype(at)] for at in columns]
        value = result.get_value
        return [
            tuple(
                [None if (data := value(row, at)) is None else loaders[at](data) for at in columns]
            )
            for row in range(result.ntuples)
        ]

    def close(self) -> None:
        """Free the result."""
        if self._result is not None:
            self._result.clear()

    @staticmethod
    def _check(connection: Any, result: Any) -> None:
        if result.status in _DONE:
            return
        if connection.status == ConnStatus.BAD:
            raise OperationalError(result.get_error_message("utf-8"))
        raise error_from_result(result)


def _dump(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bool):
        return b"t" if value else b"f"
    if isinstance(value, int):
        return b"%d" % value
    raise TypeError(f"a {type(value).__name__} is no value of a prepared statement")
