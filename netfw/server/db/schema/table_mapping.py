"""Mapping of the attributes of a resource to columns, beside the document that holds them all.

A column is what a filter, an order or a constraint needs.  All other attributes are in ``body``
alone.  Sets of an attribute (a port's addresses, its groups) are rows of a table of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from attrs import field, frozen
from sqlalchemy import Boolean, Column, ForeignKey, Index, MetaData, Table, UniqueConstraint
from sqlalchemy.types import TypeEngine

from netfw.model.resource import Kind
from netfw.server.db.schema.columns import TABLE_OPTIONS, document, number, text, word

METADATA: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


@frozen(kw_only=True)
class ColumnMapping:
    """The column of an attribute of the API."""

    attribute: str
    path: tuple[str, ...]
    """Path of the attribute within the body."""
    type: TypeEngine[Any]
    refers: str | None = None
    indexed: bool = False

    @property
    def column(self) -> str:
        return self.attribute.replace(":", "_")

    def value(self, body: Mapping[str, Any]) -> Any:
        """Return the value of the column for the resource *body*."""
        value: Any = body
        for step in self.path:
            value = None if value is None else value.get(step)
        return value

    def make_column(self) -> Column[Any]:
        keys = () if self.refers is None else (ForeignKey(f"{self.refers}.id"),)
        return Column(self.column, self.type, *keys, nullable=True)


Rows = Callable[[Mapping[str, Any]], frozenset[tuple[Any, ...]]]
"""Returns the rows of a body, without the id of the resource."""


@frozen(kw_only=True)
class Relation:
    """A table with several rows per resource, which are deleted with it."""

    table: Table
    rows: Rows

    @property
    def owner(self) -> str:
        """The first column, which has the id of the resource."""
        return str(next(iter(self.table.columns)).name)


@frozen(kw_only=True)
class TableMapping:
    """The tables of one kind."""

    kind: Kind
    table: Table
    fields: tuple[ColumnMapping, ...]
    relations: tuple[Relation, ...] = ()
    columns: Mapping[str, Column[Any]] = field(init=False)
    """Columns by the attribute of the API."""

    @columns.default
    def _columns(self) -> Mapping[str, Column[Any]]:
        own = {each.attribute: self.table.columns[each.column] for each in (*COMMON, *self.fields)}
        return MappingProxyType(
            {**own, "id": self.table.columns.id, "tenant_id": self.table.columns.project_id}
        )


def column(
    attribute: str,
    type: TypeEngine[Any],
    *path: str,
    refers: str | None = None,
    index: bool = False,
) -> ColumnMapping:
    where = path or (attribute,)
    return ColumnMapping(attribute=attribute, path=where, type=type, refers=refers, indexed=index)


def text_column(attribute: str, *path: str, index: bool = False) -> ColumnMapping:
    return column(attribute, text(), *path, index=index)


def id_column(
    attribute: str, *path: str, refers: str | None = None, index: bool = True
) -> ColumnMapping:
    return column(attribute, word(), *path, refers=refers, index=index)


def flag_column(attribute: str) -> ColumnMapping:
    return column(attribute, Boolean(create_constraint=False))


def number_column(attribute: str) -> ColumnMapping:
    return column(attribute, number())


COMMON: Final = (
    text_column("project_id"),
    text_column("name", index=True),
    text_column("description"),
    number_column("revision_number"),
    column("created_at", word()),
    column("updated_at", word()),
)


def resource_table(
    name: str, fields: tuple[ColumnMapping, ...], *constraints: UniqueConstraint | Index
) -> Table:
    """Define the table of a resource, with an index for lists of one project in order of ids."""
    indexed = [each for each in (*COMMON, *fields) if each.indexed]
    return Table(
        name,
        METADATA,
        Column("id", word(), primary_key=True),
        *(each.make_column() for each in COMMON),
        *(each.make_column() for each in fields),
        Column("body", document(), nullable=False),
        Column("extra", document(), nullable=False),
        *constraints,
        Index(None, "project_id", "id"),
        *(Index(None, each.column) for each in indexed),
        **TABLE_OPTIONS,
    )


def owner_column(name: str, owner: str) -> Column[Any]:
    """Define the column of a relation that references the resource of its rows."""
    return Column(name, word(), ForeignKey(f"{owner}.id", ondelete="CASCADE"), primary_key=True)


def mapping(
    kind: Kind,
    name: str,
    fields: tuple[ColumnMapping, ...],
    *unique: str,
    relations: tuple[Relation, ...] = (),
) -> TableMapping:
    constraints = (UniqueConstraint(*unique),) if unique else ()
    table = resource_table(name, fields, *constraints)
    return TableMapping(kind=kind, table=table, fields=fields, relations=relations)
