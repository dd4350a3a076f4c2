"""Resources of vendors, which the model does not have."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from netfw.server.db.schema.columns import TABLE_OPTIONS, document, number, text, word

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

NAME = "documents"


def upgrade() -> None:
    """Create one table for all of them."""
    op.create_table(
        NAME,
        sa.Column("resource", text(64), nullable=False),
        sa.Column("id", word(), nullable=False),
        sa.Column("project_id", text(), nullable=False),
        sa.Column("name", text(), nullable=False),
        sa.Column("parent_id", text(), nullable=True),
        sa.Column("revision", number(), nullable=False),
        sa.Column("body", document(), nullable=False),
        sa.PrimaryKeyConstraint("resource", "id", name=f"pk_{NAME}"),
        **TABLE_OPTIONS,
    )
    for columns in (["resource", "project_id", "id"], ["resource", "parent_id"]):
        op.create_index(f"ix_{NAME}_{'_'.join(columns)}", NAME, columns)


def downgrade() -> None:
    """Drop the table with its rows."""
    op.drop_table(NAME)
