"""Hosts of the ports of highly available routers, and the roles of their hosts."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

from netfw.server.db.schema.columns import TABLE_OPTIONS, text, word

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

HOSTS, ROLES = "port_hosts", "router_roles"
PORTS = sa.table("ports", sa.column("id"), sa.column("body", sa.Text()))
ROUTERS = sa.table("routers", sa.column("id"), sa.column("ha"), sa.column("body", sa.Text()))


def upgrade() -> None:
    """Create the tables; no stored port is on several hosts yet."""
    op.create_table(
        HOSTS,
        sa.Column("port_id", word(), nullable=False),
        sa.Column("host", text(), nullable=False),
        sa.PrimaryKeyConstraint("port_id", "host", name=f"pk_{HOSTS}"),
        sa.ForeignKeyConstraint(
            ["port_id"], ["ports.id"], name=f"fk_{HOSTS}_port_id", ondelete="CASCADE"
        ),
        **TABLE_OPTIONS,
    )
    op.create_index(f"ix_{HOSTS}_host", HOSTS, ["host"])
    op.create_table(
        ROLES,
        sa.Column("router_id", word(), nullable=False),
        sa.Column("host", text(), nullable=False),
        sa.Column("role", word(), nullable=False),
        sa.PrimaryKeyConstraint("router_id", "host", name=f"pk_{ROLES}"),
        sa.ForeignKeyConstraint(
            ["router_id"], ["routers.id"], name=f"fk_{ROLES}_router_id", ondelete="CASCADE"
        ),
        **TABLE_OPTIONS,
    )


def downgrade() -> None:
    """Drop the tables, and the attributes that the former release refuses to read."""
    hosts = sa.table(HOSTS, sa.column("port_id"))
    _remove(PORTS, "binding:hosts", PORTS.c.id.in_(sa.select(hosts.c.port_id)))
    _remove(ROUTERS, "vrid", ROUTERS.c.ha.is_(sa.true()))
    op.drop_table(HOSTS)
    op.drop_table(ROLES)


def _remove(table: Any, name: str, where: sa.ColumnElement[bool]) -> None:
    """Remove an attribute from the documents of some rows."""
    connection = op.get_bind()
    rows = connection.execute(sa.select(table.c.id, table.c.body).where(where)).all()
    bodies = [{"of": id, "new": _without(body, name)} for id, body in rows]
    if bodies:
        change = sa.update(table).where(table.c.id == sa.bindparam("of"))
        connection.execute(change.values(body=sa.bindparam("new")), bodies)


def _without(text: str, name: str) -> str:
    body = json.loads(text)
    body.pop(name, None)
    return json.dumps(body)
