"""Hosts that networks and routers were removed from on request."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from netfw.server.db.schema.columns import TABLE_OPTIONS, text, word

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

TABLES = {"excluded_dhcp_hosts": "networks", "excluded_l3_hosts": "routers"}


def upgrade() -> None:
    """Create the tables; what was removed before may be assigned again."""
    for name, resources in TABLES.items():
        op.create_table(
            name,
            sa.Column("resource_id", word(), nullable=False),
            sa.Column("host", text(), nullable=False),
            sa.PrimaryKeyConstraint("resource_id", "host", name=f"pk_{name}"),
            sa.ForeignKeyConstraint(
                ["resource_id"],
                [f"{resources}.id"],
                name=f"fk_{name}_resource_id",
                ondelete="CASCADE",
            ),
            **TABLE_OPTIONS,
        )


def downgrade() -> None:
    """Drop the tables."""
    for name in TABLES:
        op.drop_table(name)
