"""Statements of resource rows that are built and compiled once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Table, and_, bindparam, select

from netfw.model.resource import Kind
from netfw.server.db.engine.prepared import Prepared
from netfw.server.db.resources.visibility import row_columns, visible
from netfw.server.db.schema.resource_tables import STORED, table_mapping
from netfw.server.db.schema.table_mapping import TableMapping

SELECT_OF_NETWORK: Final = {
    kind: Prepared(
        select(STORED[kind].table.c.body)
        .where(STORED[kind].table.c.network_id == bindparam("of_network"))
        .order_by(STORED[kind].table.c.id)
    )
    for kind in (Kind.SUBNET, Kind.SEGMENT)
}


@cache
def select_one(kind: Kind, *, seen: bool, lock: bool, viewed: bool) -> Prepared:
    """Return the statement for one resource; compiling it takes longer than executing it."""
    table = table_mapping(kind).table
    rows = select(*row_columns(kind, viewed=viewed)).where(table.c.id == bindparam("of_id"))
    if seen:
        rows = rows.where(visible(kind, by_id=True))
    return Prepared(rows.with_for_update() if lock else rows)


@cache
def select_texts(kind: Kind) -> Select[tuple[str, str]]:
    """Return the statement for the stored texts of resources."""
    table = table_mapping(kind).table
    return select(table.c.id, table.c.body).where(table.c.id.in_(bindparam("ids", expanding=True)))


@cache
def insert_into(table: Table) -> Prepared:
    """Return the statement for rows with a value for each column."""
    return Prepared.insert(table)


def unchanged_condition(how: TableMapping, body: Mapping[str, Any]) -> ColumnElement[bool]:
    """Return the condition that a row is unchanged, its status included, which has no revision."""
    columns = how.table.c
    same = and_(columns.id == body["id"], columns.revision_number == body["revision_number"])
    return and_(same, columns.status == body["status"]) if "status" in columns else same
