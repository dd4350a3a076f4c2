"""Column and index for documents that all projects see."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0025"
branch_labels = None
depends_on = None

TABLE = "vendor_resources"
INDEX = f"ix_{TABLE}_resource_shared"


def upgrade() -> None:
    """Add the column, and fill it from the documents."""
    flag = sa.Boolean(create_constraint=False)
    op.add_column(TABLE, sa.Column("shared", flag, nullable=True))
    op.create_index(INDEX, TABLE, ["resource", "shared"])
    names = ("resource", "id", "body")
    stored = sa.table(TABLE, *(sa.column(each, sa.Text()) for each in names), sa.column("shared"))
    connection = op.get_bind()
    key = (stored.c.resource, stored.c.id)
    rows = connection.execute(sa.select(*key, stored.c.body)).all()
    shared = [
        {"named": resource, "of": id}
        for resource, id, body in rows
        if json.loads(body).get("shared") is True
    ]
    if shared:
        same = (stored.c.resource == sa.bindparam("named"), stored.c.id == sa.bindparam("of"))
        connection.execute(sa.update(stored).where(*same).values(shared=sa.true()), shared)


def downgrade() -> None:
    """Drop the column; the documents still have the value."""
    op.drop_index(INDEX, TABLE)
    op.drop_column(TABLE, "shared")
