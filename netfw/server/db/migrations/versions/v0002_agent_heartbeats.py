"""Digest and counts of the state report in heartbeats."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from netfw.server.db.schema.columns import TABLE_OPTIONS, document, number, word

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

NAME = "heartbeats"


def upgrade() -> None:
    """Create the table anew: heartbeats are of the last minutes only."""
    op.drop_table(NAME)
    op.create_table(
        NAME,
        sa.Column("agent_id", word(), nullable=False),
        sa.Column("at", number(), nullable=False),
        sa.Column("started", number(), nullable=True),
        sa.Column("said", word(64), nullable=False),
        sa.Column("counts", document(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", name=f"pk_{NAME}"),
        **TABLE_OPTIONS,
    )


def downgrade() -> None:
    """Create the table with times only."""
    op.drop_table(NAME)
    op.create_table(
        NAME,
        sa.Column("agent_id", word(), nullable=False),
        sa.Column("at", number(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", name=f"pk_{NAME}"),
        **TABLE_OPTIONS,
    )
