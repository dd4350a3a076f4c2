"""Resources, in the form of the API, as the rows that they are stored as.  Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import orjson
from sqlalchemy import Table

from netfw.model.resource import Kind
from netfw.server.db.schema.resource_tables import COMMON, TAGS, ColumnMapping, TableMapping, stored

Json = Mapping[str, Any]


@cache
def _fields(kind: Kind) -> tuple[tuple[str, ColumnMapping], ...]:
    """The columns of a kind that say its attributes."""
    return tuple((each.column, each) for each in (*COMMON, *stored(kind).fields))


@cache
def _names(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns)


def columns(how: TableMapping, body: Json, extra: Json) -> dict[str, Any]:
    """The row of the resource *body*, with what extension drivers added."""
    values = {name: each.value(body) for name, each in _fields(how.kind)}
    text = orjson.dumps(body).decode()
    return {"id": body["id"], **values, "body": text, "extra": _extra(extra)}


def _extra(content: Json) -> str:
    """Numbers of any length may be in there, unlike in the resource itself."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False) if content else "{}"


def related(how: TableMapping, bodies: Iterable[Json]) -> dict[Table, list[dict[str, Any]]]:
    """The rows in other tables that *bodies* say."""
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


def unique(how: TableMapping) -> str:
    """By what a resource is the only one of its kind, in words."""
    uniques = {
        Kind.PORT: "id, MAC address or fixed IP",
        Kind.FLOATING_IP: "id or address",
        Kind.AGENT: "id, or type and host",
    }
    return uniques.get(how.kind, "id")
