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
NAMED = 3
"""Number of routers that a problem names."""


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


def downgrade_problem(connection: sa.Connection) -> str | None:
    """Return why a release without these tables cannot have the rows; ``None``: it can.

    The networks and ports would stay behind, visible, and nothing would delete them.
    """
    vrids = sa.table(VRIDS, sa.column("router_id"))
    routers = connection.execute(sa.select(vrids.c.router_id)).scalars().all()
    if not routers:
        return None
    more = f" and {len(routers) - NAMED} more" if len(routers) > NAMED else ""
    return (
        f"routers are highly available ({', '.join(sorted(routers)[:NAMED])}{more}), and their HA "
        "networks would stay behind: make them plain (openstack router set --disable ROUTER, then "
        "--no-ha) or delete them, then downgrade again"
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table(VRIDS)
    op.drop_table(NETWORKS)
