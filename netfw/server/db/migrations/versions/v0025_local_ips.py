"""The local IPs that lead to ports."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

from netfw.server.db.schema.columns import TABLE_OPTIONS, word

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

NAME = "port_local_ips"
PORTS = sa.table("ports", sa.column("id"), sa.column("body", sa.Text()))


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        NAME,
        sa.Column("port_id", word(), nullable=False),
        sa.Column("local_ip_id", word(), nullable=False),
        sa.PrimaryKeyConstraint("port_id", "local_ip_id", name=f"pk_{NAME}"),
        sa.ForeignKeyConstraint(
            ["port_id"], ["ports.id"], name=f"fk_{NAME}_port_id", ondelete="CASCADE"
        ),
        **TABLE_OPTIONS,
    )
    op.create_index(f"ix_{NAME}_local_ip_id", NAME, ["local_ip_id"])


def downgrade() -> None:
    """Drop the table, and the attribute of ports that the former release refuses to read."""
    members = sa.select(sa.table(NAME, sa.column("port_id")).c.port_id)
    bind = op.get_bind()
    chosen = sa.select(PORTS.c.id, PORTS.c.body).where(PORTS.c.id.in_(members))
    for id, body in bind.execute(chosen).all():
        left = {name: value for name, value in json.loads(body).items() if name != "local_ips"}
        bind.execute(sa.update(PORTS).where(PORTS.c.id == id).values(body=json.dumps(left)))
    op.drop_table(NAME)
