"""Packet logs, and default security group rules with those that groups had until now."""

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
down_revision = "0019"
branch_labels = None
depends_on = None

NAME = "default_security_group_rules"
LOGS = "packet_logs"
INDEXES = {
    NAME: (["project_id", "id"], ["name"], ["remote_group_id"], ["remote_address_group_id"]),
    LOGS: (["project_id", "id"], ["name"], ["resource_id"], ["target_id"]),
}
SEEDS = (("egress", None, True), ("ingress", "PARENT", False))
"""Direction, remote group, and whether groups other than the default groups have it."""


def upgrade() -> None:
    """Create the tables with their indexes, and the first default rules."""
    rules = _create(
        NAME,
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
    )
    op.bulk_insert(rules, list(_first_rows()))
    _create(
        LOGS,
        sa.Column("resource_type", text()),
        sa.Column("resource_id", word()),
        sa.Column("target_id", word()),
        sa.Column("event", text()),
        sa.Column("enabled", sa.Boolean(create_constraint=False)),
    )


def _create(name: str, *columns: sa.Column[Any]) -> sa.Table:
    """Create a table of resources with *columns*."""
    table = op.create_table(
        name,
        sa.Column("id", word(), nullable=False),
        sa.Column("project_id", text()),
        sa.Column("name", text()),
        sa.Column("description", text()),
        sa.Column("revision_number", number()),
        sa.Column("created_at", word()),
        sa.Column("updated_at", word()),
        *columns,
        sa.Column("body", document(), nullable=False),
        sa.Column("extra", document(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"pk_{name}"),
        **TABLE_OPTIONS,
    )
    for indexed in INDEXES[name]:
        op.create_index(f"ix_{name}_{'_'.join(indexed)}", name, indexed)
    return table


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
    """Drop the tables with their rows."""
    op.drop_table(LOGS)
    op.drop_table(NAME)
