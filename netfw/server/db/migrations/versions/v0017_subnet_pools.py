"""Subnet pools with their free prefixes, address scopes and auto-allocated topologies."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from netfw.server.db.schema.columns import (
    NUMBER_LENGTH,
    TABLE_OPTIONS,
    document,
    number,
    text,
    word,
)

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

SUBNET_INDEX = "ix_subnets_subnetpool_id_project_id"


def upgrade() -> None:
    """Create the tables, and an index of subnets by their pool."""
    _create_resources(
        "address_scopes",
        sa.Column("ip_version", number()),
        sa.Column("shared", sa.Boolean(create_constraint=False)),
    )
    _create_resources(
        "subnet_pools",
        sa.Column("ip_version", number()),
        sa.Column("min_prefixlen", number()),
        sa.Column("default_prefixlen", number()),
        sa.Column("max_prefixlen", number()),
        sa.Column("default_quota", number()),
        sa.Column("address_scope_id", word()),
        sa.Column("is_default", sa.Boolean(create_constraint=False)),
        sa.Column("shared", sa.Boolean(create_constraint=False)),
        sa.ForeignKeyConstraint(
            ["address_scope_id"], ["address_scopes.id"], name="fk_subnet_pools_address_scope_id"
        ),
    )
    op.create_index("ix_subnet_pools_address_scope_id", "subnet_pools", ["address_scope_id"])
    _create_parts_of_pools()
    _create_topologies()
    op.create_index(SUBNET_INDEX, "subnets", ["subnetpool_id", "project_id"])


def _create_resources(name: str, *columns: Any) -> None:
    op.create_table(
        name,
        sa.Column("id", word(), nullable=False),
        sa.Column("project_id", text()),
        sa.Column("name", text()),
        sa.Column("description", text()),
        sa.Column("revision_number", number()),
        sa.Column("created_at", word()),
        sa.Column("updated_at", word()),
        *columns,
        sa.Column("body", document(), nullable=False),
        sa.Column("extra", document(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"pk_{name}"),
        **TABLE_OPTIONS,
    )
    op.create_index(f"ix_{name}_project_id_id", name, ["project_id", "id"])
    op.create_index(f"ix_{name}_name", name, ["name"])


def _create_parts_of_pools() -> None:
    name = "default_subnet_pools"
    op.create_table(
        name,
        sa.Column("subnet_pool_id", word(), nullable=False),
        sa.Column("ip_version", number(), nullable=False),
        sa.PrimaryKeyConstraint("subnet_pool_id", name=f"pk_{name}"),
        sa.UniqueConstraint("ip_version", name=f"uq_{name}_ip_version"),
        _belongs_to_pool(name),
        **TABLE_OPTIONS,
    )
    name = "free_prefixes"
    op.create_table(
        name,
        sa.Column("subnet_pool_id", word(), nullable=False),
        sa.Column("prefixlen", number(), nullable=False, autoincrement=False),
        sa.Column("first", word(NUMBER_LENGTH), nullable=False),
        sa.PrimaryKeyConstraint("subnet_pool_id", "prefixlen", "first", name=f"pk_{name}"),
        _belongs_to_pool(name),
        **TABLE_OPTIONS,
    )
    op.create_index(f"ix_{name}_subnet_pool_id_first", name, ["subnet_pool_id", "first"])


def _belongs_to_pool(name: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["subnet_pool_id"],
        ["subnet_pools.id"],
        name=f"fk_{name}_subnet_pool_id",
        ondelete="CASCADE",
    )


def _create_topologies() -> None:
    name = "auto_allocated_topologies"
    op.create_table(
        name,
        sa.Column("project_id", text(), nullable=False),
        sa.Column("network_id", word(), nullable=False),
        sa.Column("router_id", word(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", name=f"pk_{name}"),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=f"fk_{name}_network_id", ondelete="CASCADE"
        ),
        **TABLE_OPTIONS,
    )
    op.create_index(f"ix_{name}_network_id", name, ["network_id"])


def downgrade() -> None:
    """Drop the tables with their rows; subnets keep their prefixes."""
    op.drop_index(SUBNET_INDEX, "subnets")
    for name in (
        "auto_allocated_topologies",
        "free_prefixes",
        "default_subnet_pools",
        "subnet_pools",
        "address_scopes",
    ):
        op.drop_table(name)
