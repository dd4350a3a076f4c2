"""When hosts took their roles, so that a report that is overtaken by a later one is refused."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from netfw.server.db.schema.columns import number, word

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

NAME = "router_roles"


def upgrade() -> None:
    """Add the columns; the times of stored roles are not known."""
    op.add_column(NAME, sa.Column("boot", word(), nullable=True))
    op.add_column(NAME, sa.Column("since", number(), nullable=True))


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column(NAME, "since")
    op.drop_column(NAME, "boot")
