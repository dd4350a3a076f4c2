"""Prepared statements of the hot path: compiled once, and passed to the driver directly.

SQLAlchemy takes five to ten times as long to run a compiled statement as SQLite takes to execute
it.  Its conversions are not needed here: values go to the driver as they are (text, numbers, flags,
``None``), and rows are what the driver returns, so a flag of SQLite is a number.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, insert
from sqlalchemy.exc import DBAPIError

Values = Mapping[str, Any]

MAX_LISTED = 24
"""Longer lists are left to SQLAlchemy, since each length of a list needs a text of its own."""


class Text(NamedTuple):
    """A statement compiled for one dialect."""

    sql: str
    names: tuple[str, ...] | None
    """Names of the values in their order; ``None``: the driver takes them by name."""
    fixed: Values
    """Values that are part of the statement."""
    row: Any
    """Makes a row with the columns as attributes from a row of the driver."""

    def bind(self, values: Values) -> Any:
        """Return *values* in the form that the driver takes."""
        if self.fixed:
            values = {**self.fixed, **values}
        return values if self.names is None else tuple([values[name] for name in self.names])


class Prepared:
    """One statement; errors are raised as :class:`sqlalchemy.exc.DBAPIError`, as by SQLAlchemy."""

    def __init__(self, statement: Any, columns: Sequence[str] | None = None) -> None:
        """*columns*: the columns of an insert without values."""
        self._statement, self._columns = statement, columns
        self._texts: dict[tuple[str, tuple[int, ...]], Text] = {}

    @classmethod
    def insert(cls, table: Table) -> Prepared:
        """Prepare an insert of rows with a value for each column."""
        return cls(insert(table), [column.name for column in table.columns])

    def all(self, connection: Connection, values: Values) -> list[Any]:
        """Return the rows; a value that is a list is that of an ``IN``."""
        lists = {name: value for name, value in values.items() if isinstance(value, list)}
        if sum(map(len, lists.values())) > MAX_LISTED:
            return list(connection.execute(self._statement, values))
        text = self._text(connection, lists)
        cursor = self._run(connection, text.sql, text.bind(_spread(values, lists)))
        try:
            return [text.row(row) for row in cursor.fetchall()]
        finally:
            cursor.close()

    def first(self, connection: Connection, values: Values) -> Any | None:
        """Return the first row, or ``None``."""
        rows = self.all(connection, values)
        return rows[0] if rows else None

    def count(self, connection: Connection, values: Values) -> int:
        """Execute the statement and return the number of changed rows."""
        text = self._text(connection, {})
        return self._execute_and_count(connection, text.sql, text.bind(values), many=False)

    def count_many(self, connection: Connection, rows: Sequence[Values]) -> int:
        """Execute the statement for each of *rows* and return the number of changed rows."""
        if len(rows) == 1:
            return self.count(connection, rows[0])
        text = self._text(connection, {})
        return self._execute_and_count(
            connection, text.sql, [text.bind(row) for row in rows], many=True
        )

    def _execute_and_count(
        self, connection: Connection, sql: str, values: Any, *, many: bool
    ) -> int:
        cursor = self._run(connection, sql, values, many=many)
        try:
            return int(cursor.rowcount)
        finally:
            cursor.close()

    def _run(self, connection: Connection, sql: str, values: Any, *, many: bool = False) -> Any:
        if not connection.in_transaction():
            connection.begin()
        dialect, own = connection.dialect, connection.connection
        cursor = own.cursor()
        for listener in connection.dispatch.before_cursor_execute:
            listener(connection, cursor, sql, values, None, many)
        try:
            (cursor.executemany if many else cursor.execute)(sql, values)
        except dialect.loaded_dbapi.Error as exc:
            disconnected = dialect.is_disconnect(exc, own, cursor)
            if disconnected:
                connection.invalidate(exc)
            else:
                cursor.close()
            raise DBAPIError.instance(
                sql,
                None,
                exc,
                dialect.loaded_dbapi.Error,
                connection_invalidated=disconnected,
                dialect=dialect,
            ) from exc
        return cursor

    def _text(self, connection: Connection, lists: Mapping[str, list[Any]]) -> Text:
        key = connection.dialect.name, tuple(map(len, lists.values()))
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = self._compile(connection, lists)
        return text

    def _compile(self, connection: Connection, lists: Mapping[str, list[Any]]) -> Text:
        compiled = self._statement.compile(dialect=connection.dialect, column_keys=self._columns)
        fixed = {name: value for name, value in compiled.params.items() if value is not None}
        sql, names = str(compiled), compiled.positiontup if compiled.positional else None
        if lists:
            state = compiled.construct_expanded_state({**compiled.params, **lists})
            sql, names = state.statement, state.positiontup if compiled.positional else None
        columns = [each.name for each in getattr(self._statement, "exported_columns", ())]
        row: Any = namedtuple("Row", columns, rename=True)  # type: ignore[misc]
        return Text(sql, None if names is None else tuple(names), fixed, row._make)


def _spread(values: Values, lists: Mapping[str, list[Any]]) -> Values:
    """Return *values* with the items of lists under the names that they have in the text."""
    if not lists:
        return values
    single = {name: value for name, value in values.items() if name not in lists}
    for name, listed in lists.items():
        single |= {f"{name}_{at}": value for at, value in enumerate(listed, 1)}
    return single
