"""Trunks and their sub-ports."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

from netfw.server.db.schema.columns import TABLE_OPTIONS, document, number, text, word

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

TRUNKS = "trunks"
SUB_PORTS = "trunk_sub_ports"
PORTS = sa.table("ports", sa.column("id"), sa.column("body", sa.Text()))


def upgrade() -> None:
    """Create the tables with their indexes."""
    op.create_table(
        TRUNKS,
        sa.Column("id", word(), nullable=False),
        sa.Column("project_id", text()),
        sa.Column("name", text()),
        sa.Column("description", text()),
        sa.Column("revision_number", number()),
        sa.Column("created_at", word()),
        sa.Column("updated_at", word()),
        sa.Column("port_id", word()),
        sa.Column("admin_state_up", sa.Boolean(create_constraint=False)),
        sa.Column("body", document(), nullable=False),
        sa.Column("extra", document(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"pk_{TRUNKS}"),
        sa.ForeignKeyConstraint(["port_id"], ["ports.id"], name=f"fk_{TRUNKS}_port_id"),
        sa.UniqueConstraint("port_id", name=f"uq_{TRUNKS}_port_id"),
        **TABLE_OPTIONS,
    )
    for columns in (["project_id", "id"], ["name"]):
        op.create_index(f"ix_{TRUNKS}_{'_'.join(columns)}", TRUNKS, columns)
    op.create_table(
        SUB_PORTS,
        sa.Column("trunk_id", word(), nullable=False),
        sa.Column("port_id", word(), nullable=False),
        sa.Column("segmentation_id", number(), nullable=False, autoincrement=False),
        sa.PrimaryKeyConstraint("trunk_id", "segmentation_id", name=f"pk_{SUB_PORTS}"),
        sa.ForeignKeyConstraint(
            ["trunk_id"], ["trunks.id"], name=f"fk_{SUB_PORTS}_trunk_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["port_id"], ["ports.id"], name=f"fk_{SUB_PORTS}_port_id"),
        sa.UniqueConstraint("port_id", name=f"uq_{SUB_PORTS}_port_id"),
        **TABLE_OPTIONS,
    )


def downgrade() -> None:
    """Drop the tables, and the attribute of ports that the former release refuses to read."""
    members = [
        sa.select(sa.table(name, sa.column("port_id")).c.port_id) for name in (TRUNKS, SUB_PORTS)
    ]
    bind = op.get_bind()
    chosen = sa.select(PORTS.c.id, PORTS.c.body).where(PORTS.c.id.in_(sa.union(*members)))
    for id, body in bind.execute(chosen).all():
        left = {name: value for name, value in json.loads(body).items() if name != "trunk"}
        bind.execute(sa.update(PORTS).where(PORTS.c.id == id).values(body=json.dumps(left)))
    op.drop_table(SUB_PORTS)
    op.drop_table(TRUNKS)
