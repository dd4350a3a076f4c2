"""Tunnel addresses of hosts, so that no host advertises that of another."""

from __future__ import annotations

import json
from ipaddress import IPv6Address, ip_address
from typing import Any

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
    hosts: dict[str, str] = {}
    for host, body in op.get_bind().execute(_stored_agents()).all():
        address = _address(json.loads(body)["configurations"].get("tunneling_ip"))
        if address is not None:
            hosts.setdefault(address, host)
    if hosts:
        op.bulk_insert(table, [{"address": each, "host": hosts[each]} for each in sorted(hosts)])


def _stored_agents() -> sa.Select[Any]:
    """Return host and body of all agents; of two with one address, the live one comes first."""
    agents = sa.table(
        "agents",
        sa.column("id", sa.Text()),
        sa.column("host", sa.Text()),
        sa.column("body", sa.Text()),
    )
    heartbeats = sa.table(
        "heartbeats", sa.column("agent_id", sa.Text()), sa.column("at", sa.BigInteger())
    )
    return (
        sa.select(agents.c.host, agents.c.body)
        .outerjoin_from(agents, heartbeats, heartbeats.c.agent_id == agents.c.id)
        .order_by(sa.func.coalesce(heartbeats.c.at, 0).desc(), agents.c.id)
    )


def _address(value: object) -> str | None:
    """Return the address as the server looks for it; hosts may say anything."""
    try:
        address = ip_address(str(value))
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return None
        address = address.ipv4_mapped or address
    return str(address)


def downgrade() -> None:
    """Drop the table."""
    op.drop_table(NAME)
