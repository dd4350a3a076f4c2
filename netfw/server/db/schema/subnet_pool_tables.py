"""Tables of subnet pools, their free prefixes, address scopes and auto-allocated topologies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Column, ForeignKey, Index, Table, UniqueConstraint

from netfw.model.resource import Kind
from netfw.server.db.schema.columns import NUMBER_LENGTH, TABLE_OPTIONS, number, text, word
from netfw.server.db.schema.table_mapping import (
    METADATA,
    Relation,
    TableMapping,
    flag_column,
    id_column,
    mapping,
    number_column,
    owner_column,
    resource_table,
)

_ADDRESS_SCOPE = (number_column("ip_version"), flag_column("shared"))
_SUBNET_POOL = (
    number_column("ip_version"),
    number_column("min_prefixlen"),
    number_column("default_prefixlen"),
    number_column("max_prefixlen"),
    number_column("default_quota"),
    id_column("address_scope_id", refers="address_scopes"),
    flag_column("is_default"),
    flag_column("shared"),
)

DEFAULT_SUBNET_POOLS: Final = Table(
    "default_subnet_pools",
    METADATA,
    owner_column("subnet_pool_id", "subnet_pools"),
    Column("ip_version", number(), nullable=False),
    UniqueConstraint("ip_version"),
    **TABLE_OPTIONS,
)
"""The default pool of each IP version; no two pools are."""

FREE_PREFIXES: Final = Table(
    "free_prefixes",
    METADATA,
    owner_column("subnet_pool_id", "subnet_pools"),
    Column("prefixlen", number(), primary_key=True, autoincrement=False),
    Column("first", word(NUMBER_LENGTH), primary_key=True),
    Index(None, "subnet_pool_id", "first"),
    **TABLE_OPTIONS,
)
"""The free prefixes of a pool: disjoint, each as large as possible.  Subnets have the others."""

AUTO_ALLOCATED_TOPOLOGIES: Final = Table(
    "auto_allocated_topologies",
    METADATA,
    Column("project_id", text(), primary_key=True),
    Column("network_id", word(), ForeignKey("networks.id", ondelete="CASCADE"), nullable=False),
    Column("router_id", word(), nullable=False),
    Index(None, "network_id"),
    **TABLE_OPTIONS,
)
"""The network and router that a project got on request; it has one at most."""


def _default_of(body: Mapping[str, Any]) -> frozenset[tuple[Any, ...]]:
    return frozenset({(body["ip_version"],)} if body["is_default"] else ())


SUBNET_POOL_TABLES = (
    mapping(Kind.ADDRESS_SCOPE, "address_scopes", _ADDRESS_SCOPE),
    TableMapping(
        kind=Kind.SUBNET_POOL,
        table=resource_table("subnet_pools", _SUBNET_POOL),
        fields=_SUBNET_POOL,
        relations=(Relation(table=DEFAULT_SUBNET_POOLS, rows=_default_of),),
    ),
)
