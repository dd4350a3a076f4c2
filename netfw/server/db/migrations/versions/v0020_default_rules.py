"""Default security group rules, with the four rules that new groups had until now."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from alembic import op

from netfw.server.db.schema.columns import TABLE_OPTIONS, document, number, text, word

revision = "0020"
down_revision = "0015"
branch_labels = None
depends_on = None

NAME = "default_security_group_rules"
INDEXES = (["project_id", "id"], ["name"], ["remote_group_id"], ["remote_address_group_id"])
SEEDS = (("egress", None, True), ("ingress", "PARENT", False))
"""Direction, remote group, and whether groups other than the default groups have it."""


def upgrade() -> None:
    """Create the table with its indexes and first rows."""
    table = op.create_table(
        NAME,
        sa.Column("id", word(), nullable=False),
        sa.Column("project_id", text()),
        sa.Column("name", text()),
        sa.Column("description", text()),
        sa.Column("revision_number", number()),
        sa.Column("created_at", word()),
        sa.Column("updated_at", word()),
        sa.Column("direction", text()),
        sa.Column("ethertype", text()),
        sa.Column("protocol", text()),
        sa.Column("port_range_min", number()),
        sa.Column("port_range_max", number()),
        sa.Column("remote_ip_prefix", text()),
        sa.Column("remote_group_id", word()),
        sa.Column("remote_address_group_id", word()),
        sa.Column("used_in_default_sg", sa.Boolean(create_constraint=False)),
        sa.Column("used_in_non_default_sg", sa.Boolean(create_constraint=False)),
        sa.Column("body", document(), nullable=False),
        sa.Column("extra", document(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"pk_{NAME}"),
        **TABLE_OPTIONS,
    )
    for columns in INDEXES:
        op.create_index(f"ix_{NAME}_{'_'.join(columns)}", NAME, columns)
    op.bulk_insert(table, list(_first_rows()))


def _first_rows() -> Iterator[dict[str, Any]]:
    now = datetime.now(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"
    for direction, remote, in_others in SEEDS:
        for ethertype in ("IPv4", "IPv6"):
            row = {
                "id": str(uuid4()),
                "project_id": "",
                "description": f"Legacy default SG rule for {direction} traffic",
                "revision_number": 1,
                "created_at": now,
                "updated_at": now,
                "direction": direction,
                "ethertype": ethertype,
                "protocol": None,
                "port_range_min": None,
                "port_range_max": None,
                "remote_ip_prefix": None,
                "remote_group_id": remote,
                "remote_address_group_id": None,
                "used_in_default_sg": True,
                "used_in_non_default_sg": in_others,
            }
            body = json.dumps({**row, "tenant_id": "", "tags": []}, separators=(",", ":"))
            yield {**row, "body": body, "extra": "{}"}


def downgrade() -> None:
    """Drop the table with its rows."""
    op.drop_table(NAME)
