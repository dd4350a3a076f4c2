"""Prepared statements of the hot path: compiled once, and passed to the driver directly.

SQLAlchemy takes five to ten times as long to run a compiled statement as SQLite takes to execute
it.  Its conversions are not needed here: values go to the driver as they are (text, numbers, flags,
``None``), and rows are what the driver returns, so a flag of SQLite is a number.
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, insert
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.exc import DBAPIError

Values = Mapping[str, Any]

MAX_LISTED = 24
"""Longer lists are left to SQLAlchemy, since each length of a list needs a text of its own."""
ROWS_AT_ONCE = (64, 32, 16, *range(8, 0, -1))
"""Numbers of rows that one insert of PostgreSQL can have: each needs a text of its own."""
_PLACE = re.compile(r"\$(\d+)")
_NAMED_PLACE = re.compile(r"%\((\w+)\)s")


class CompiledStatement(NamedTuple):
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

    def __init__(
        self, statement: Any, columns: Sequence[str] | None = None, *, padded: bool = False
    ) -> None:
        """*columns*: the columns of an insert without values; *padded*: the lists of an ``IN`` may
        be long, and repeat their last item, so that few texts are needed."""
        self._statement, self._columns, self._padded = statement, columns, padded
        self._upserts: Mapping[str, Any] = {}
        self._repeats: dict[int, str] = {}
        self._texts: dict[tuple[str, tuple[int, ...]], CompiledStatement] = {}

    @classmethod
    def insert(cls, table: Table) -> Prepared:
        """Prepare an insert of rows with a value for each column."""
        return cls(insert(table), [column.name for column in table.columns])

    @classmethod
    def upsert(cls, table: Table) -> Prepared:
        """Prepare an insert of rows that replace those with the same primary key."""
        made = cls.insert(table)
        keys = [column.name for column in table.primary_key]
        others = [column.name for column in table.columns if column.name not in keys]

        def on_conflict(insertion: Any) -> Any:
            new = {name: insertion.excluded[name] for name in others}
            return insertion.on_conflict_do_update(index_elements=keys, set_=new)

        replacing = mysql.insert(table)
        replacing = replacing.on_duplicate_key_update(
            {name: replacing.inserted[name] for name in others}
        )
        made._upserts = {
            "sqlite": on_conflict(sqlite.insert(table)),
            "postgresql": on_conflict(postgresql.insert(table)),
            "mariadb": replacing,
            "mysql": replacing,
        }
        return made

    def all(self, connection: Connection, values: Values) -> list[Any]:
        """Return the rows; a value that is a list is that of an ``IN``."""
        lists = {name: value for name, value in values.items() if isinstance(value, list)}
        if self._padded:
            lists = {name: _padded(value) for name, value in lists.items()}
        elif sum(map(len, lists.values())) > MAX_LISTED:
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

    def set_id(self, connection: Connection) -> int:
        """Execute an update of MariaDB; return the id that it set, or 0 if it changed no row."""
        text = self._text(connection, {})
        cursor = self._run(connection, text.sql, text.bind({}))
        try:
            return int(cursor.lastrowid or 0) if cursor.rowcount else 0
        finally:
            cursor.close()

    def count_many(self, connection: Connection, rows: Sequence[Values]) -> int:
        """Execute the statement for each of *rows* and return the number of changed rows."""
        if len(rows) == 1:
            return self.count(connection, rows[0])
        text = self._text(connection, {})
        if connection.dialect.name == "postgresql":
            return sum(
                self._execute_and_count(connection, sql, values, many=False)
                for sql, values in self._parts(text, rows)
            )
        return self._execute_and_count(
            connection, text.sql, [text.bind(row) for row in rows], many=True
        )

    def _parts(self, text: CompiledStatement, rows: Sequence[Values]) -> Iterator[tuple[str, Any]]:
        """Yield statements for all *rows* with their values: inserts of several rows, others of
        one."""
        at = 0
        while at < len(rows):
            left = len(rows) - at if self._columns is not None else 1
            size = next(each for each in ROWS_AT_ONCE if each <= left)
            values = [value for row in rows[at : at + size] for value in text.bind(row)]
            yield self._repeated(text, size), values
            at += size

    def _repeated(self, text: CompiledStatement, size: int) -> str:
        """Return the text of an insert of *size* rows."""
        if size not in self._repeats:
            width = len(text.names or ())
            head, _, rest = text.sql.partition(" VALUES (")
            group, _, tail = rest.partition(")")
            groups = (_shifted(group, row * width) for row in range(size))
            self._repeats[size] = f"{head} VALUES ({'), ('.join(groups)}){tail}"
        return self._repeats[size] if size > 1 else text.sql

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
        return execute_text(connection, sql, values, many=many)

    def _text(self, connection: Connection, lists: Mapping[str, list[Any]]) -> CompiledStatement:
        key = connection.dialect.name, tuple(map(len, lists.values()))
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = self._compile(connection, lists)
        return text

    def _compile(self, connection: Connection, lists: Mapping[str, list[Any]]) -> CompiledStatement:
        dialect = connection.dialect
        statement = self._upserts.get(dialect.name, self._statement)
        compiled = statement.compile(dialect=dialect, column_keys=self._columns)
        fixed = {name: value for name, value in compiled.params.items() if value is not None}
        sql, names = str(compiled), compiled.positiontup if compiled.positional else None
        if lists:
            state = compiled.construct_expanded_state({**compiled.params, **lists})
            sql, names = state.statement, state.positiontup if compiled.positional else None
        if dialect.name == "postgresql":
            sql, names = numbered(sql)
        columns = [each.name for each in getattr(self._statement, "exported_columns", ())]
        row: Any = namedtuple("Row", columns, rename=True)  # type: ignore[misc]
        return CompiledStatement(sql, None if names is None else tuple(names), fixed, row._make)


def execute_text(connection: Connection, sql: str, values: Any = (), *, many: bool = False) -> Any:
    """Pass a statement to the driver, and return its cursor; begins no transaction.

    :raises DBAPIError: the database refuses it.
    """
    dialect, own = connection.dialect, connection.connection
    cursor = _cursor(connection)
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


def _padded(listed: list[Any]) -> list[Any]:
    """Return *listed* with as many items as the next power of two."""
    return listed + listed[-1:] * ((1 << (len(listed) - 1).bit_length()) - len(listed))


def numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """Return *sql* with ``$1`` instead of ``%(name)s``, and the names in the order of numbers."""
    names: dict[str, int] = {}

    def place(match: re.Match[str]) -> str:
        return f"${names.setdefault(match[1], len(names) + 1)}"

    return _NAMED_PLACE.sub(place, sql).replace("%%", "%"), tuple(names)


def _shifted(group: str, by: int) -> str:
    """Return *group* with its numbers ``$1`` increased."""
    return _PLACE.sub(lambda place: f"${int(place[1]) + by}", group)


def _cursor(connection: Connection) -> Any:
    if connection.dialect.name != "postgresql":
        return connection.connection.cursor()
    from netfw.server.db.engine.libpq import LibpqCursor  # other databases need no psycopg

    return LibpqCursor(connection.connection)


def _spread(values: Values, lists: Mapping[str, list[Any]]) -> Values:
    """Return *values* with the items of lists under the names that they have in the text."""
    if not lists:
        return values
    single = {name: value for name, value in values.items() if name not in lists}
    for name, listed in lists.items():
        single |= {f"{name}_{at}": value for at, value in enumerate(listed, 1)}
    return single
