"""Statements of the hot path, whose text is made once and handed to the driver as it is.

SQLAlchemy takes five to ten times as long to run a statement that it has made already as SQLite
takes to answer it.  What it does for others is not needed here: values go in as the driver takes
them (texts, numbers, flags, ``None``), and rows come out as the driver gives them, so a flag of
SQLite is a number.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, insert
from sqlalchemy.exc import DBAPIError

Values = Mapping[str, Any]

MOST_LISTED = 24
"""Lists with more values are left to SQLAlchemy: each length of a list is a text of its own."""


class Text(NamedTuple):
    """A statement in the words of one kind of database."""

    sql: str
    names: tuple[str, ...] | None
    """Of its values in their order; ``None``: the driver takes them by name."""
    fixed: Values
    """Values that are part of the statement."""
    row: Any
    """Makes a row, with the columns as attributes, of what the driver gives."""

    def filled(self, values: Values) -> Any:
        """What the driver takes."""
        if self.fixed:
            values = {**self.fixed, **values}
        return values if self.names is None else tuple([values[name] for name in self.names])


class Prepared:
    """One statement; :class:`sqlalchemy.exc.DBAPIError` is raised as if SQLAlchemy had run it."""

    def __init__(self, statement: Any, columns: Sequence[str] | None = None) -> None:
        """*columns* are those that an insert without values is given."""
        self._statement, self._columns = statement, columns
        self._texts: dict[tuple[str, tuple[int, ...]], Text] = {}

    @classmethod
    def insert(cls, table: Table) -> Prepared:
        """Inserts rows that have a value for each column."""
        return cls(insert(table), [column.name for column in table.columns])

    def all(self, connection: Connection, values: Values) -> list[Any]:
        """The rows that it finds; values that are lists are those of an ``IN``."""
        lists = {name: value for name, value in values.items() if isinstance(value, list)}
        if sum(map(len, lists.values())) > MOST_LISTED:
            return list(connection.execute(self._statement, values))
        text = self._text(connection, lists)
        cursor = self._run(connection, text.sql, text.filled(_spread(values, lists)))
        try:
            return [text.row(row) for row in cursor.fetchall()]
        finally:
            cursor.close()

    def first(self, connection: Connection, values: Values) -> Any | None:
        """The first row, if it finds any."""
        found = self.all(connection, values)
        return found[0] if found else None

    def count(self, connection: Connection, values: Values) -> int:
        """Run it, and say how many rows that changed."""
        text = self._text(connection, {})
        return self._counted(connection, text.sql, text.filled(values), many=False)

    def count_many(self, connection: Connection, rows: Sequence[Values]) -> int:
        """Run it for each of *rows*."""
        if len(rows) == 1:
            return self.count(connection, rows[0])
        text = self._text(connection, {})
        return self._counted(connection, text.sql, [text.filled(row) for row in rows], many=True)

    def _counted(self, connection: Connection, sql: str, values: Any, *, many: bool) -> int:
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
        for told in connection.dispatch.before_cursor_execute:
            told(connection, cursor, sql, values, None, many)
        try:
            (cursor.executemany if many else cursor.execute)(sql, values)
        except dialect.loaded_dbapi.Error as exc:
            gone = dialect.is_disconnect(exc, own, cursor)
            if gone:
                connection.invalidate(exc)
            else:
                cursor.close()
            raise DBAPIError.instance(
                sql,
                None,
                exc,
                dialect.loaded_dbapi.Error,
                connection_invalidated=gone,
                dialect=dialect,
            ) from exc
        return cursor

    def _text(self, connection: Connection, lists: Mapping[str, list[Any]]) -> Text:
        key = connection.dialect.name, tuple(map(len, lists.values()))
        found = self._texts.get(key)
        if found is None:
            found = self._texts[key] = self._made(connection, lists)
        return found

    def _made(self, connection: Connection, lists: Mapping[str, list[Any]]) -> Text:
        done = self._statement.compile(dialect=connection.dialect, column_keys=self._columns)
        fixed = {name: value for name, value in done.params.items() if value is not None}
        sql, names = str(done), done.positiontup if done.positional else None
        if lists:
            state = done.construct_expanded_state({**done.params, **lists})
            sql, names = state.statement, state.positiontup if done.positional else None
        columns = [each.name for each in getattr(self._statement, "exported_columns", ())]
        row: Any = namedtuple("Row", columns, rename=True)  # type: ignore[misc]
        return Text(sql, None if names is None else tuple(names), fixed, row._make)


def _spread(values: Values, lists: Mapping[str, list[Any]]) -> Values:
    """Lists as single values, by the names that they have in the text."""
    if not lists:
        return values
    single = {name: value for name, value in values.items() if name not in lists}
    for name, listed in lists.items():
        single |= {f"{name}_{at}": value for at, value in enumerate(listed, 1)}
    return single
