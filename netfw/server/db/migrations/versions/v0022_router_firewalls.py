"""Firewall groups in routers; they are documents, so there is no table of their own."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

ROUTERS = sa.table("routers", sa.column("id"), sa.column("body", sa.Text()))
DOCUMENTS = sa.table("vendor_resources", sa.column("resource"))
NAMES = ("firewall_group", "firewall_policy", "firewall_rule")
ATTRIBUTE = "firewall_groups"


def upgrade() -> None:
    """Change nothing: no router has a firewall yet."""


def downgrade() -> None:
    """Delete the documents, and the attribute of routers that the former release cannot read."""
    bind = op.get_bind()
    bind.execute(sa.delete(DOCUMENTS).where(DOCUMENTS.c.resource.in_(NAMES)))
    chosen = sa.select(ROUTERS.c.id, ROUTERS.c.body).where(ROUTERS.c.body.contains(ATTRIBUTE))
    for id, body in bind.execute(chosen).all():
        left = {name: value for name, value in json.loads(body).items() if name != ATTRIBUTE}
        bind.execute(sa.update(ROUTERS).where(ROUTERS.c.id == id).values(body=json.dumps(left)))
