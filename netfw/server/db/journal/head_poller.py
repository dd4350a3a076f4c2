"""The newest commit, polled many times a second."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import PoolProxiedConnection

from netfw.drivers.state_source import Cursor
from netfw.errors import BackendBroken, BackendUnavailable
from netfw.server.db.journal.journal import MISSING

NEWEST: Final = "SELECT epoch, seq FROM journal_head"


class JournalHeadPoller:
    """Polls the newest commit, many times a second.  For one thread at a time.

    It has a connection of its own and bypasses SQLAlchemy, so that an idle server uses little CPU.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: PoolProxiedConnection | None = None

    def newest(self) -> Cursor:
        """Return the cursor of the newest commit.

        :raises BackendUnavailable: the database does not answer.
        :raises BackendBroken: the journal does not exist.
        """
        head = self._execute(NEWEST)
        if head is None:
            raise BackendBroken(MISSING)
        return Cursor(head[0], head[1])

    def close(self) -> None:
        """Close the connection; the next poll opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _execute(self, statement: str) -> Any:
        """Execute a statement; return its first row, if it has rows.

        :raises BackendUnavailable: the database does not answer.
        """
        dbapi = self._engine.dialect.loaded_dbapi
        try:
            if self._connection is None:
                self._connection = autocommit_connection(self._engine)
            cursor = self._connection.cursor()
            try:
                cursor.execute(statement)
                return cursor.fetchone() if cursor.description else None
            finally:
                cursor.close()
        except (DBAPIError, dbapi.Error, OSError) as exc:
            self.close()
            raise BackendUnavailable(f"the database does not answer: {exc}") from exc


def autocommit_connection(engine: Engine) -> PoolProxiedConnection:
    """Return a connection without transactions that is not one of the pool of *engine*."""
    connection = engine.raw_connection()
    driver: Any = connection.driver_connection
    connection.detach()  # leaves the pool to other users
    match engine.dialect.name:
        case "postgresql":
            driver.autocommit = True
        case "mysql" | "mariadb":
            driver.autocommit(True)
    return connection
