"""NDP proxies, and whether routers have any in force."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

from netfw.server.db.schema.columns import TABLE_OPTIONS, document, number, text, word

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

NAME = "ndp_proxies"
INDEXES = (["project_id", "id"], ["name"], ["router_id"], ["port_id"])
ATTRIBUTE = "enable_ndp_proxy"
ROUTERS = sa.table(
    "routers",
    sa.column("id"),
    sa.column("body", sa.Text()),
    sa.column(ATTRIBUTE, sa.Boolean()),
)


def upgrade() -> None:
    """Create the table with its indexes; no router has NDP proxies."""
    op.add_column("routers", sa.Column(ATTRIBUTE, sa.Boolean(create_constraint=False)))
    op.execute(sa.update(ROUTERS).values({ATTRIBUTE: False}))
    bind = op.get_bind()
    for id, body in bind.execute(sa.select(ROUTERS.c.id, ROUTERS.c.body)).all():
        shown = json.dumps({**json.loads(body), ATTRIBUTE: False})
        bind.execute(sa.update(ROUTERS).where(ROUTERS.c.id == id).values(body=shown))
    op.create_table(
        NAME,
        sa.Column("id", word(), nullable=False),
        sa.Column("project_id", text()),
        sa.Column("name", text()),
        sa.Column("description", text()),
        sa.Column("revision_number", number()),
        sa.Column("created_at", word()),
        sa.Column("updated_at", word()),
        sa.Column("router_id", word()),
        sa.Column("port_id", word()),
        sa.Column("ip_address", text()),
        sa.Column("body", document(), nullable=False),
        sa.Column("extra", document(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"pk_{NAME}"),
        sa.ForeignKeyConstraint(["router_id"], ["routers.id"], name=f"fk_{NAME}_router_id"),
        **TABLE_OPTIONS,
    )
    for columns in INDEXES:
        op.create_index(f"ix_{NAME}_{'_'.join(columns)}", NAME, columns)


def downgrade() -> None:
    """Drop the table with its rows, and the attribute that the former release cannot read."""
    op.drop_table(NAME)
    bind = op.get_bind()
    chosen = sa.select(ROUTERS.c.id, ROUTERS.c.body).where(ROUTERS.c.body.contains(ATTRIBUTE))
    for id, body in bind.execute(chosen).all():
        left = {name: value for name, value in json.loads(body).items() if name != ATTRIBUTE}
        bind.execute(sa.update(ROUTERS).where(ROUTERS.c.id == id).values(body=json.dumps(left)))
    op.drop_column("routers", ATTRIBUTE)
