"""Prefixes of allowed address pairs, so that those with an address are found by an index."""

from __future__ import annotations

import json
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

import sqlalchemy as sa
from alembic import op

from netfw.server.db.schema.columns import ADDRESS_LENGTH, TABLE_OPTIONS, word

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

NAME = "port_address_pairs"
AT_ONCE = 1000
"""Rows in one statement."""


def upgrade() -> None:
    """Create the table, and fill it from the stored ports."""
    table = op.create_table(
        NAME,
        sa.Column("port_id", word(), nullable=False),
        sa.Column("network_id", word(), nullable=False),
        sa.Column("prefix", word(ADDRESS_LENGTH), nullable=False),
        sa.PrimaryKeyConstraint("port_id", "prefix", name=f"pk_{NAME}"),
        sa.ForeignKeyConstraint(
            ["port_id"], ["ports.id"], name=f"fk_{NAME}_port_id", ondelete="CASCADE"
        ),
        **TABLE_OPTIONS,
    )
    op.create_index(f"ix_{NAME}_network_id_prefix", NAME, ["network_id", "prefix"])
    rows = sorted(_stored_pairs())
    for at in range(0, len(rows), AT_ONCE):
        names = ("port_id", "network_id", "prefix")
        part = [dict(zip(names, row, strict=True)) for row in rows[at : at + AT_ONCE]]
        op.bulk_insert(table, part)


def _stored_pairs() -> set[tuple[str, str, str]]:
    return {row for body in _bodies_with_pairs() for row in _pairs(json.loads(body))}


def _bodies_with_pairs() -> Iterator[str]:
    """Yield the bodies of ports with pairs; a downgrade writes bodies with spaces."""
    ports = sa.table("ports", sa.column("body", sa.Text()))
    has_pairs = (
        ports.c.body.contains(f'"allowed_address_pairs":{space}[{{', autoescape=True)
        for space in ("", " ")
    )
    yield from op.get_bind().execute(sa.select(ports.c.body).where(sa.or_(*has_pairs))).scalars()


def _pairs(port: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for pair in port["allowed_address_pairs"]:
        yield port["id"], port["network_id"], str(ip_network(pair["ip_address"]))


def downgrade() -> None:
    """Drop the table."""
    op.drop_table(NAME)
