"""The statements that a server sends to its database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from netfw.server.db import Database


@contextmanager
def recorded_statements(database: Database) -> Iterator[list[str]]:
    """Record the statements that read and write meanwhile; none that begins a transaction."""
    recorded: list[str] = []

    def record(_: Any, __: Any, statement: str, *___: Any) -> None:
        if not statement.startswith("BEGIN"):
            recorded.append(statement)

    engines = (database.writing, database.reading)
    for engine in engines:
        event.listen(engine, "before_cursor_execute", record)
    yield recorded
    for engine in engines:
        event.remove(engine, "before_cursor_execute", record)
