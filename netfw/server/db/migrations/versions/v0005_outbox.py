"""The outbox, and the MAC addresses of hosts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from netfw.server.db.schema.columns import TABLE_OPTIONS, document, number, text, word

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "host_macs",
        sa.Column("host", text(), nullable=False),
        sa.Column("mac", word(), nullable=False),
        sa.PrimaryKeyConstraint("host", name="pk_host_macs"),
        sa.UniqueConstraint("mac", name="uq_host_macs_mac"),
        **TABLE_OPTIONS,
    )
    _outbox()
    op.create_table(
        "outbox_lanes",
        sa.Column("driver", text(64), nullable=False),
        sa.Column("lane", word(), nullable=False),
        sa.Column("owner", word(), nullable=False),
        sa.Column("until", number(), nullable=False),
        sa.Column("attempts", number(), nullable=False),
        sa.Column("again", number(), nullable=False),
        sa.Column("error", document(), nullable=False),
        sa.PrimaryKeyConstraint("driver", "lane", name="pk_outbox_lanes"),
        **TABLE_OPTIONS,
    )


def _outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("seq", number(), nullable=False, autoincrement=False),
        sa.Column("place", number(), nullable=False, autoincrement=False),
        sa.Column("driver", text(64), nullable=False),
        sa.Column("lane", word(), nullable=False),
        sa.Column("kind", word(), nullable=False),
        sa.Column("resource_id", word(), nullable=False),
        sa.Column("revision", number(), nullable=False),
        sa.Column("before", document(), nullable=True),
        sa.Column("after", document(), nullable=True),
        sa.Column("context", document(), nullable=False),
        sa.Column("at", number(), nullable=False),
        sa.Column("tried", sa.Boolean(create_constraint=False), nullable=False),
        sa.Column("error", document(), nullable=True),
        sa.PrimaryKeyConstraint("seq", "place", name="pk_outbox"),
        **TABLE_OPTIONS,
    )
    op.create_index("ix_outbox_driver_lane_seq_place", "outbox", ["driver", "lane", "seq", "place"])
    op.create_index("ix_outbox_resource_id", "outbox", ["resource_id"])


def downgrade() -> None:
    """Drop the tables with undelivered entries."""
    for name in ("outbox_lanes", "outbox", "host_macs"):
        op.drop_table(name)
