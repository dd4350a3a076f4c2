"""Tunnel addresses of hosts, so that no host advertises that of another."""

from __future__ import annotations

import json
from ipaddress import ip_address

import sqlalchemy as sa
from alembic import op

from netfw.server.db.schema.columns import ADDRESS_LENGTH, TABLE_OPTIONS, text, word

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

NAME = "tunnel_addresses"


def upgrade() -> None:
    """Create the table, and fill it from the stored agents."""
    table = op.create_table(
        NAME,
        sa.Column("address", word(ADDRESS_LENGTH), nullable=False),
        sa.Column("host", text(), nullable=False),
        sa.PrimaryKeyConstraint("address", name=f"pk_{NAME}"),
        **TABLE_OPTIONS,
    )
    op.create_index(f"ix_{NAME}_host", NAME, ["host"])
    agents = sa.table(
        "agents",
        sa.column("id", sa.Text()),
        sa.column("host", sa.Text()),
        sa.column("body", sa.Text()),
    )
    stored = sa.select(agents.c.host, agents.c.body).order_by(agents.c.id)
    hosts: dict[str, str] = {}
    for host, body in op.get_bind().execute(stored).all():
        try:
            address = str(ip_address(str(json.loads(body)["configurations"].get("tunneling_ip"))))
        except ValueError:
            continue
        hosts.setdefault(address, host)
    if hosts:
        op.bulk_insert(table, [{"address": each, "host": hosts[each]} for each in sorted(hosts)])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table(NAME)
