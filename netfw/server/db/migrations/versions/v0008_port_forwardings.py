"""Port forwardings of floating IPs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from netfw.server.db.schema.columns import TABLE_OPTIONS, document, number, text, word

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

NAME = "port_forwardings"
INDEXES = (["project_id", "id"], ["name"], ["floatingip_id"], ["internal_port_id"])


def upgrade() -> None:
    """Create the table with its indexes."""
    op.create_table(
        NAME,
        sa.Column("id", word(), nullable=False),
        sa.Column("project_id", text()),
        sa.Column("name", text()),
        sa.Column("description", text()),
        sa.Column("revision_number", number()),
        sa.Column("created_at", word()),
        sa.Column("updated_at", word()),
        sa.Column("floatingip_id", word()),
        sa.Column("protocol", text()),
        sa.Column("external_port", number()),
        sa.Column("external_port_range", text()),
        sa.Column("internal_port", number()),
        sa.Column("internal_port_range", text()),
        sa.Column("internal_port_id", word()),
        sa.Column("internal_ip_address", text()),
        sa.Column("body", document(), nullable=False),
        sa.Column("extra", document(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"pk_{NAME}"),
        sa.ForeignKeyConstraint(
            ["floatingip_id"], ["floating_ips.id"], name=f"fk_{NAME}_floatingip_id"
        ),
        **TABLE_OPTIONS,
    )
    for columns in INDEXES:
        op.create_index(f"ix_{NAME}_{'_'.join(columns)}", NAME, columns)


def downgrade() -> None:
    """Drop the table with its rows."""
    op.drop_table(NAME)
