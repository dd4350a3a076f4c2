"""The part of a database's schema that is monitored.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from netfw.ovs.ovsdb.mirror import COLUMNS


def reduce_schema(schema: Any) -> dict[str, Any]:
    """Reduce a schema to the monitored columns: ``ovs`` takes milliseconds to parse all of it.

    :raises ValueError: it lacks tables or columns, which the text names, or is not a schema at all.
    """
    tables = schema.get("tables") if isinstance(schema, dict) else None
    if not isinstance(tables, dict):
        raise ValueError("the server answered with something that is not a schema")
    if lacking := list(_missing(tables)):
        raise ValueError(f"it lacks {', '.join(lacking)}")
    reduced = {
        name: {
            **tables[name],
            "columns": {column: tables[name]["columns"][column] for column in columns},
        }
        for name, columns in COLUMNS.items()
    }
    return {**schema, "tables": reduced}


def _missing(tables: dict[str, Any]) -> Iterator[str]:
    for name, columns in COLUMNS.items():
        table = tables.get(name)
        present = table.get("columns") if isinstance(table, dict) else None
        if not isinstance(present, dict):
            yield f"table {name}"
        else:
            yield from (f"column {name}.{column}" for column in columns if column not in present)
