"""Column for filters of networks by ``port_security_enabled``."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

NAME = "port_security_enabled"


def upgrade() -> None:
    """Add the column, and fill it from the documents."""
    flag = sa.Boolean(create_constraint=False)
    op.add_column("networks", sa.Column(NAME, flag, nullable=True))
    networks = sa.table(
        "networks", sa.column("id", sa.Text()), sa.column("body", sa.Text()), sa.column(NAME, flag)
    )
    connection = op.get_bind()
    rows = connection.execute(sa.select(networks.c.id, networks.c.body)).all()
    on = [{"of": id} for id, body in rows if json.loads(body).get(NAME, True)]
    off = [{"of": id} for id, body in rows if not json.loads(body).get(NAME, True)]
    for value, some in ((True, on), (False, off)):
        if some:
            change = sa.update(networks).where(networks.c.id == sa.bindparam("of"))
            connection.execute(change.values({NAME: value}), some)


def downgrade() -> None:
    """Drop the column; the documents still have the value."""
    op.drop_column("networks", NAME)
