"""Tables of all kinds of resources."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sqlalchemy import Column, Index, Table

from netfw.errors import NotSupported
from netfw.model.resource import Kind
from netfw.server.db.schema.columns import TABLE_OPTIONS, text, word
from netfw.server.db.schema.network_tables import NETWORK_TABLES
from netfw.server.db.schema.port_tables import PORT_TABLES
from netfw.server.db.schema.qos_tables import QOS_TABLES
from netfw.server.db.schema.rbac_tables import RBAC_TABLES
from netfw.server.db.schema.router_tables import ROUTER_TABLES
from netfw.server.db.schema.security_tables import SECURITY_TABLES
from netfw.server.db.schema.subnet_pool_tables import SUBNET_POOL_TABLES
from netfw.server.db.schema.table_mapping import (
    METADATA,
    TableMapping,
    flag_column,
    mapping,
    text_column,
)
from netfw.server.db.schema.trunk_tables import TRUNK_TABLES

_AGENT = (
    text_column("agent_type"),
    text_column("binary"),
    text_column("host", index=True),
    text_column("topic"),
    flag_column("admin_state_up"),
    text_column("availability_zone"),
)


TAGS = Table(
    "tags",
    METADATA,
    Column("resource_id", word(), primary_key=True),
    Column("tag", text(), primary_key=True),
    Index(None, "tag"),
    **TABLE_OPTIONS,
)


_MAPPINGS = (
    *NETWORK_TABLES,
    *PORT_TABLES,
    *ROUTER_TABLES,
    *SECURITY_TABLES,
    *SUBNET_POOL_TABLES,
    *RBAC_TABLES,
    *QOS_TABLES,
    *TRUNK_TABLES,
    mapping(Kind.AGENT, "agents", _AGENT, "agent_type", "host"),
)
STORED: Final[Mapping[Kind, TableMapping]] = MappingProxyType(
    {each.kind: each for each in _MAPPINGS}
)


def table_mapping(kind: Kind) -> TableMapping:
    """Return the tables of *kind*.

    :raises NotSupported: the database does not store it.
    """
    try:
        return STORED[kind]
    except KeyError:
        raise NotSupported(f"this database does not store resources of kind {kind}") from None
