"""Pulse: the newest commit, asked for many times a second.

It has a connection of its own and nothing between: an idle server that looks twenty times a second
should not be seen among the processes of its machine.
"""

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
    """The place of the newest commit.  For one thread at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: PoolProxiedConnection | None = None

    def newest(self) -> Cursor:
        """Where the journal ends.

        :raises BackendUnavailable: the database does not answer.
        :raises BackendBroken: it has no journal.
        """
        dbapi = self._engine.dialect.loaded_dbapi
        try:
            found = self._asked()
        except (DBAPIError, dbapi.Error, OSError) as exc:
            self.close()
            raise BackendUnavailable(f"the database does not answer: {exc}") from exc
        if found is None:
            raise BackendBroken(MISSING)
        return Cursor(found[0], found[1])

    def close(self) -> None:
        """Give up the connection; asking makes another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _asked(self) -> Any:
        if self._connection is None:
            self._connection = self._connected()
        cursor = self._connection.cursor()
        try:
            cursor.execute(NEWEST)
            return cursor.fetchone()
        finally:
            cursor.close()

    def _connected(self) -> PoolProxiedConnection:
        connection = self._engine.raw_connection()
        driver: Any = connection.driver_connection
        connection.detach()  # the pool is for others
        match self._engine.dialect.name:
            case "postgresql":
                driver.autocommit = True
            case "mysql" | "mariadb":
                driver.autocommit(True)
        return connection
