"""Conntrack helpers, which are a part of the bodies of routers."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

ATTRIBUTE = "conntrack_helpers"
ROUTERS = sa.table("routers", sa.column("id"), sa.column("body", sa.Text()))


def upgrade() -> None:
    """Change nothing: routers of the former release have none."""


def downgrade() -> None:
    """Drop the attribute of routers that the former release refuses to read."""
    bind = op.get_bind()
    chosen = sa.select(ROUTERS.c.id, ROUTERS.c.body).where(ROUTERS.c.body.contains(ATTRIBUTE))
    for id, body in bind.execute(chosen).all():
        left = {name: value for name, value in json.loads(body).items() if name != ATTRIBUTE}
        bind.execute(sa.update(ROUTERS).where(ROUTERS.c.id == id).values(body=json.dumps(left)))
