"""Status reports of hosts."""

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
    """Create a table with one row per resource, service and host."""
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
    """Drop the table."""
    op.drop_table(NAME)
