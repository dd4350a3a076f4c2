"""HA networks of projects, and the virtual router ids in use."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from netfw.server.db.schema.columns import TABLE_OPTIONS, number, text, word

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

NETWORKS, VRIDS = "ha_networks", "vrids"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        NETWORKS,
        sa.Column("project_id", text(), nullable=False),
        sa.Column("ordinal", number(), autoincrement=False, nullable=False),
        sa.Column("network_id", word(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "ordinal", name=f"pk_{NETWORKS}"),
        sa.UniqueConstraint("network_id", name=f"uq_{NETWORKS}_network_id"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        VRIDS,
        sa.Column("network_id", word(), nullable=False),
        sa.Column("vrid", number(), autoincrement=False, nullable=False),
        sa.Column("router_id", word(), nullable=False),
        sa.PrimaryKeyConstraint("network_id", "vrid", name=f"pk_{VRIDS}"),
        sa.UniqueConstraint("router_id", name=f"uq_{VRIDS}_router_id"),
        sa.ForeignKeyConstraint(
            ["network_id"], ["ha_networks.network_id"], name=f"fk_{VRIDS}_network_id"
        ),
        **TABLE_OPTIONS,
    )


def downgrade() -> None:
    """Drop the tables; the networks and their ports stay."""
    op.drop_table(VRIDS)
    op.drop_table(NETWORKS)
