"""Tables of trunks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, ForeignKey, Table, UniqueConstraint

from netfw.model.resource import Kind
from netfw.server.db.schema.columns import TABLE_OPTIONS, number, word
from netfw.server.db.schema.table_mapping import (
    METADATA,
    Relation,
    TableMapping,
    flag_column,
    id_column,
    owner_column,
    resource_table,
)

_TRUNK = (
    id_column("port_id", refers="ports", index=False),
    flag_column("admin_state_up"),
)
TRUNKS = resource_table("trunks", _TRUNK, UniqueConstraint("port_id"))
TRUNK_SUB_PORTS = Table(
    "trunk_sub_ports",
    METADATA,
    owner_column("trunk_id", "trunks"),
    Column("port_id", word(), ForeignKey("ports.id"), nullable=False),
    Column("segmentation_id", number(), primary_key=True, autoincrement=False),
    UniqueConstraint("port_id"),
    **TABLE_OPTIONS,
)
"""The sub-ports of trunks: a port is in one trunk, and a tag is that of one sub-port."""


def _sub_ports(body: Mapping[str, Any]) -> frozenset[tuple[Any, ...]]:
    return frozenset((sub["port_id"], sub["segmentation_id"]) for sub in body["sub_ports"])


TRUNK_TABLES = (
    TableMapping(
        kind=Kind.TRUNK,
        table=TRUNKS,
        fields=_TRUNK,
        relations=(Relation(table=TRUNK_SUB_PORTS, rows=_sub_ports),),
    ),
)
