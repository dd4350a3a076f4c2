"""What hosts report of resources."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from netfw.server.db.schema.columns import TABLE_OPTIONS, document, number, text, word

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

NAME = "reports"


def upgrade() -> None:
    """One row for each service of each host that has a resource in its care."""
    op.create_table(
        NAME,
        sa.Column("resource_id", word(), nullable=False),
        sa.Column("service", word(), nullable=False),
        sa.Column("host", text(), nullable=False),
        sa.Column("kind", word(), nullable=False),
        sa.Column("revision", number(), nullable=False),
        sa.Column("status", word(), nullable=False),
        sa.Column("reason", document(), nullable=False),
        sa.PrimaryKeyConstraint("resource_id", "service", "host", name=f"pk_{NAME}"),
        **TABLE_OPTIONS,
    )


def downgrade() -> None:
    """Nobody reported anything."""
    op.drop_table(NAME)
