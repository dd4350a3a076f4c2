"""The rows of a resource: its columns, its document, and its rows in other tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import orjson
from sqlalchemy import Table

from netfw.model.resource import Kind
from netfw.server.db.schema.resource_tables import TAGS, table_mapping
from netfw.server.db.schema.table_mapping import COMMON, ColumnMapping, TableMapping

Json = Mapping[str, Any]


@cache
def _fields(kind: Kind) -> tuple[tuple[str, ColumnMapping], ...]:
    """Return the columns of the attributes of a kind."""
    return tuple((each.column, each) for each in (*COMMON, *table_mapping(kind).fields))


@cache
def _names(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns)


def row_values(how: TableMapping, body: Json, extra: Json) -> dict[str, Any]:
    """Return the row of the resource *body*; *extra*: attributes of extension drivers."""
    values = {name: each.value(body) for name, each in _fields(how.kind)}
    text = orjson.dumps(body).decode()
    return {"id": body["id"], **values, "body": text, "extra": _extra(extra)}


def _extra(content: Json) -> str:
    """Render JSON; unlike the resource itself, it may have integers of any length."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False) if content else "{}"


def related_rows(how: TableMapping, bodies: Iterable[Json]) -> dict[Table, list[dict[str, Any]]]:
    """Return the rows of *bodies* in other tables."""
    found: dict[Table, list[dict[str, Any]]] = {}
    for body in bodies:
        for relation in how.relations:
            names = _names(relation.table)
            for row in sorted(relation.rows(body)):
                values = dict(zip(names, (body["id"], *row), strict=True))
                found.setdefault(relation.table, []).append(values)
        for tag in body.get("tags", ()):
            found.setdefault(TAGS, []).append({"resource_id": body["id"], "tag": tag})
    return found


def unique_key_text(how: TableMapping) -> str:
    """Return a description of the unique keys of a kind, for messages."""
    uniques = {
        Kind.PORT: "id, MAC address or fixed IP",
        Kind.FLOATING_IP: "id or address",
        Kind.AGENT: "id, or type and host",
        Kind.SUBNET_POOL: "id, or IP version as the default pool",
    }
    return uniques.get(how.kind, "id")
